"""The door for browsers: it passes the console on, to those who call it by its name, and nothing else."""

import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from dataproxy.console.relay import create_relay
from tests.console.chrome import relayed
from tests.console.conftest import Stage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(stage: Stage) -> Iterator[str]:
    with relayed(stage.socket) as found:
        yield found.removesuffix("/console")


def test_it_passes_the_console_on_and_nothing_else(address: str) -> None:
    with httpx.Client(base_url=address, timeout=60) as client:
        assert client.get("/console/sign-in").status_code == 200
        assert client.get("/console/assets/console.css").headers["content-type"].startswith("text/css")
        assert client.get("/").headers["location"] == "/console/"
        for path in ("/v1/status", "/health", "/console/../v1/keys", "/console/%2e%2e/v1/keys"):
            assert client.get(path, headers={"authorization": "Bearer x"}).status_code == 404, path


def test_it_answers_to_its_own_name_alone(address: str) -> None:
    assert httpx.get(f"{address}/console/sign-in", headers={"host": "evil.test"}).status_code == 421


def test_what_a_browser_claims_about_itself_is_not_believed(address: str) -> None:
    claims = {"x-forwarded-proto": "https", "x-forwarded-for": "10.9.9.9"}
    answer = httpx.get(f"{address}/console/sign-in", headers=claims)
    assert "secure" not in answer.headers["set-cookie"].lower()


def test_a_form_that_is_too_large_goes_no_further(address: str) -> None:
    assert httpx.post(f"{address}/console/sign-in", content=b"x" * 70_000).status_code == 413


def test_by_https_cookies_are_for_https_alone(stage: Stage) -> None:
    with TestClient(create_relay(stage.socket, {"testserver"}, https=True)) as client:
        assert "; secure" in client.get("/console/sign-in").headers["set-cookie"].lower()


def test_without_a_data_proxy_it_says_so(tmp_path: Path) -> None:
    with TestClient(create_relay(tmp_path / "none.sock", {"testserver"})) as client:
        answer = client.get("/console/sign-in")
    assert answer.status_code == 503 and "headrace status" in answer.text


def test_nobody_is_given_the_session_of_another(stage: Stage, address: str) -> None:
    with httpx.Client(base_url=address, timeout=60) as signed_in, httpx.Client(base_url=address, timeout=60) as stranger:
        token = re.findall(r'name="csrf" value="([^"]+)"', signed_in.get("/console/sign-in").text)[0]
        form = {"csrf": token, "key": stage.proxy.key("reviewer", "acme"), "purpose": "case 12"}
        assert signed_in.post("/console/sign-in", data=form, headers={"origin": address}).status_code == 303
        assert signed_in.get("/console/trajectories").status_code == 200
        for path in ("/console/trajectories", "/console/access"):
            answer = stranger.get(path)
            assert answer.status_code == 303 and answer.headers["location"].startswith("/console/sign-in"), path


class OneAnswer(socketserver.StreamRequestHandler):
    """Lets a connection go when it is used a second time, as a server does whose patience with idle ones ended right then."""

    def handle(self) -> None:
        """Answer once."""
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        self.rfile.readline()


def test_no_request_meets_a_connection_that_the_data_proxy_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "data-proxy.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), OneAnswer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with TestClient(create_relay(path, {"testserver"})) as client:
                assert [client.get("/console/sign-in").status_code for _ in range(3)] == [200] * 3
        finally:
            server.shutdown()
