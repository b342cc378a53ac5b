"""A gateway as the console sees it: an address that answers its metrics."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread


@contextmanager
def answering(metrics: Callable[[], str]) -> Iterator[str]:
    """The address of a gateway whose metrics are what ``metrics`` gives, asked anew each time."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = metrics().encode()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
