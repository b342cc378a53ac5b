"""Workers at https:// addresses: calls go there if the certificate is good for the name, and nowhere if it is not."""

import datetime
from ipaddress import ip_address, ip_network

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.errors import UpstreamUnreachable
from gateway.fleet.addresses import checked_origin
from gateway.polling import WorkerPoller
from gateway.upstream.fetch import Request, fetch
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool
from router.workers import Health
from tests.fakes.engine import FakeEngine
from tests.fakes.serving import serve
from tests.gateway.conftest import run_gateway
from tests.gateway.sse import BODY, CHAT, open_stream

ASK = Request("GET", "/ready", [])


def certificate(directory, *, days=1, names=("127.0.0.1",)):
    """A certificate that is its own authority, and its key, in one file."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "worker")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(name)) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = directory / f"{days}-{names[0]}.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return path


@pytest.fixture
def good(tmp_path, monkeypatch):
    """A certificate for this machine that the gateway trusts."""
    path = certificate(tmp_path, days=36_500)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


@pytest.mark.parametrize("stream", [False, True])
async def test_a_worker_behind_tls_is_served_from_and_its_connections_are_kept(run_dir, good, stream):
    engine, patient = FakeEngine(), {"connect_timeout_s": 60.0, "control_timeout_s": 60.0}
    async with (
        serve(engine.app(), lifespan="off", certificate=good) as url,
        run_gateway(run_dir, engine, [url], **patient) as served,
    ):
        assert url.startswith("https://") and served.gateway.workers[0].health is Health.READY
        async with served.client() as client:
            for _ in range(3):
                if stream:
                    async with open_stream(client) as answer:
                        assert (await answer.rest()).endswith(b"data: [DONE]\n\n")
                else:
                    assert (await client.post(CHAT, json={**BODY, "stream": False})).status_code == 200
    assert len(served.journal.finished) == len(engine.calls) == 3


async def test_a_worker_is_registered_under_its_https_address_and_verified_under_its_name():
    async def resolve(host, port):
        assert (host, port) == ("worker", 443)
        return ["10.0.0.7"]

    url, origin = await checked_origin("https://Worker/", [ip_network("10.0.0.0/8")], resolve)
    assert (url, origin.host, origin.address, origin.port, origin.certified) == (
        *("https://worker:443", "worker:443"),
        *("10.0.0.7", 443, "worker"),
    )


@pytest.mark.parametrize("fault", ["unknown authority", "expired", "another name", "no TLS"])
async def test_what_cannot_show_a_good_certificate_gets_nothing(tmp_path, good, monkeypatch, run_dir, fault):
    shown = good
    if fault == "unknown authority":
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate(tmp_path, days=40_000)))
    elif fault != "no TLS":
        shown = certificate(tmp_path, **({"days": 1} if fault == "expired" else {"days": 36_501, "names": ("127.0.0.9",)}))
        monkeypatch.setenv("SSL_CERT_FILE", str(shown))
    engine = FakeEngine()
    async with serve(engine.app(), lifespan="off", certificate=None if fault == "no TLS" else shown) as url:
        url = url.replace("http://", "https://")
        with pytest.raises(UpstreamUnreachable):
            await fetch(Pool(5), Origin.parse(url), ASK, 10)
        async with run_gateway(run_dir, engine, [url]) as served:
            for _ in range(5):
                await WorkerPoller(served.gateway)()
            async with served.client() as client:
                answer = await client.post(CHAT, json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_worker")
    assert engine.calls == []
