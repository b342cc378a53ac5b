"""Who looks every second makes a client every time: none of them may read certificates again."""

import ssl

import pytest

from workers.inference.client import EngineClient
from workers.inference.client.tls import trust
from workers.trainer.fleet import GatewayFleet


def test_a_client_for_every_look_reads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    trust()
    for name in ("load_verify_locations", "load_default_certs", "set_default_verify_paths"):
        monkeypatch.setattr(ssl.SSLContext, name, lambda *_, **__: read.append(1))
    EngineClient("http://127.0.0.1:1")
    GatewayFleet("http://127.0.0.1:1", "hr_key")._client().close()
    assert not read


def test_an_unknown_authority_is_refused() -> None:
    assert trust().verify_mode is ssl.CERT_REQUIRED and trust().check_hostname
