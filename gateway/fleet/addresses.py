"""Where a registered worker may lie. The addresses that its host resolves to are checked, and calls go to the one that was checked.

So neither a name that leads to a metadata service, nor one that leads elsewhere tomorrow (DNS rebinding), makes the gateway a
proxy into its own network. Addresses of the settings are the operator's word and are not checked.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from gateway.errors import Refused
from gateway.upstream.origin import Origin

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Awaitable[list[str]]]

_PORTS = {"http": 80, "https": 443}
_RESOLVE_TIMEOUT_S = 5.0
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_NEVER = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8", "169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "::/128", "fe80::/10", "fec0::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::/32",
        "2002::/16", "2001::/32", "64:ff9b::/96", "64:ff9b:1::/48",
    )
)  # fmt: skip
"""This host, link-local, multicast and reserved addresses, the clouds' metadata services, and IPv4 wrapped into IPv6."""


async def resolve_host(host: str, port: int) -> list[str]:
    """The addresses of ``host``.

    Raises:
        OSError: it has none, or nobody says so in time.
    """
    async with asyncio.timeout(_RESOLVE_TIMEOUT_S):
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def checked_origin(url: str, allowed: Sequence[Network], resolve: Resolve = resolve_host) -> tuple[str, Origin]:
    """(the URL in its plain form, the origin that calls go to) of a worker at ``url``.

    Raises:
        Refused: 400, no base URL that could be a worker's; 403, one that must not be.
    """
    scheme, host, port = _parse(url)
    try:
        addresses = [ip_address(text) for text in await resolve(host, port)]
    except OSError as error:
        raise Refused(400, "worker_unresolved", "the worker's host has no address; check its name", param="url") from error
    for address in addresses:
        if not _may_call(address, allowed):
            message = "the worker's address is outside the ranges that this gateway may call; see worker_ranges in its settings"
            raise Refused(403, "worker_address_not_allowed", message, param="url")
    shown = f"[{host}]" if ":" in host else host
    plain_url = f"{scheme}://{shown}:{port}"
    return plain_url, Origin.parse(plain_url, str(_plain(addresses[0])))


def _parse(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:  # a bad port, a bad IPv6 host
        raise _no_base_url() from error
    extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in _PORTS or not _HOST.fullmatch(host) or extra or not url.isprintable() or port == 0:
        raise _no_base_url()
    return parts.scheme, host, port or _PORTS[parts.scheme]


def _no_base_url() -> Refused:
    message = "url must be a worker's base URL, such as http://10.0.0.7:30000: http or https, a host, a port, nothing else"
    return Refused(400, "invalid_worker_url", message, param="url")


def _may_call(address: Address, allowed: Sequence[Network]) -> bool:
    plain = _plain(address)
    return not any(plain in network for network in _NEVER) and any(plain in network for network in allowed)


def _plain(address: Address) -> Address:
    """An IPv4 address that came as ``::ffff:a.b.c.d`` is that IPv4 address."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped if mapped is not None else address
