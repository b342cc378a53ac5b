"""What may be registered as a worker: base URLs in allowed ranges, however they are written, and never a metadata service."""

from ipaddress import ip_network

import pytest

from gateway.errors import Refused
from gateway.fleet.addresses import checked_origin

ANYWHERE = (ip_network("0.0.0.0/0"), ip_network("::/0"))
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def leads_to(*addresses):
    async def resolve(host, port):
        if not addresses:
            raise OSError("no such host")
        return list(addresses)

    return resolve


@pytest.mark.parametrize(
    ("url", "plain", "address"),
    [
        ("http://127.0.0.1:30000", "http://127.0.0.1:30000", "127.0.0.1"),
        ("http://127.0.0.1:30000/", "http://127.0.0.1:30000", "127.0.0.1"),
        ("HTTP://LocalHost:81", "http://localhost:81", "127.0.0.1"),
        ("http://127.0.0.9", "http://127.0.0.9:80", "127.0.0.9"),
        ("http://[::1]:30000", "http://[::1]:30000", "::1"),
        ("https://127.0.0.1", "https://127.0.0.1:443", "127.0.0.1"),
        ("http://worker.:30000", "http://worker:30000", "::ffff:127.0.0.1"),
    ],
)
async def test_a_base_url_gets_one_plain_form_and_the_address_that_was_checked(url, plain, address):
    found, origin = await checked_origin(url, LOOPBACK, leads_to(address))
    assert found == plain
    assert origin.address == address.removeprefix("::ffff:")
    assert found.endswith(f"://{origin.host}")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "httpss://127.0.0.1",
            "ftp://127.0.0.1",
            "file:///etc/passwd",
            "unix:///run/x.sock",
            "127.0.0.1:30000",
            "//127.0.0.1",
            "http://",
        ),
        *("http://127.0.0.1/path", "http://127.0.0.1?x", "http://127.0.0.1#x", "http://user:pass@127.0.0.1", "http://a@b"),
        *("http://127.0.0.1:0", "http://127.0.0.1:65536", "http://127.0.0.1:x", "http://[::1", "http://[fe80::1%25eth0]:1"),
        *("http://127.0.0.1\\@10.0.0.1", "http://127.0.0.1\r\nhost: x", "http://wörker:1", "", "http://exa mple:1"),
    ],
)
async def test_what_is_no_base_url_is_refused_before_anything_is_resolved(url):
    async def resolve(host, port):
        raise AssertionError(host)

    with pytest.raises(Refused) as refused:
        await checked_origin(url, ANYWHERE, resolve)
    assert (refused.value.status, refused.value.param) == (400, "url")


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "169.254.0.1", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"),
        *("::ffff:169.254.169.254", "2002:a9fe:a9fe::", "64:ff9b::a9fe:a9fe", "2001:0:a9fe:a9fe::"),
    ],
)
async def test_metadata_services_and_wrapped_addresses_are_refused_even_where_everything_is_allowed(address):
    for host in ("harmless.example", f"[{address}]" if ":" in address else address):
        with pytest.raises(Refused) as refused:
            await checked_origin(f"http://{host}:80", ANYWHERE, leads_to(address))
        assert (refused.value.status, refused.value.code) == (403, "worker_address_not_allowed")


@pytest.mark.parametrize("address", ["10.0.0.7", "192.168.1.1", "172.16.0.1", "8.8.8.8", "fd00::1", "::ffff:10.0.0.7"])
async def test_by_default_only_this_machine_is_allowed(address):
    with pytest.raises(Refused, match="worker_ranges"):
        await checked_origin("http://worker:80", LOOPBACK, leads_to(address))
    await checked_origin("http://worker:80", (*LOOPBACK, ip_network("10.0.0.0/8"), *ANYWHERE), leads_to(address))


async def test_one_address_that_is_not_allowed_spoils_the_name():
    with pytest.raises(Refused):
        await checked_origin("http://worker:80", LOOPBACK, leads_to("127.0.0.1", "169.254.169.254"))


async def test_a_name_without_an_address_is_said_so():
    with pytest.raises(Refused, match="no address"):
        await checked_origin("http://worker:80", LOOPBACK, leads_to())


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "017700000001", "127.1"])
async def test_numbers_that_spell_an_address_are_judged_by_where_they_lead(host):
    try:
        _, origin = await checked_origin(f"http://{host}:80", LOOPBACK)
    except Refused as refused:
        assert refused.status == 400  # this system's resolver does not take them
    else:
        assert origin.address == "127.0.0.1"
    with pytest.raises(Refused):
        await checked_origin("http://2852039166:80", ANYWHERE)  # 169.254.169.254
