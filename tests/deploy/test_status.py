"""What `headrace status` says of the processes, before and whatever the store says."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec

from dataproxy.client.types import Status
from dataproxy.client.watch_types import Alarm
from deploy.commands.status import _table, running_lines
from deploy.launcher.checks import free_port
from deploy.paths import Paths


@contextmanager
def gateway(workers: dict[str, str]) -> Iterator[str]:
    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"keys_loaded": True, "workers": workers, "models": []}).encode()
            self.send_response(503)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def stack(directory: Path, url: str) -> Paths:
    paths = Paths(directory / "data", directory / "config")
    paths.run_dir.mkdir(parents=True)
    paths.stack_file.write_text(json.dumps({"gateway": url, "model": "tiny", "processes": ["engine", "gateway"]}))
    (paths.run_dir / "gateway.pid").write_text("17\n")
    return paths


def test_a_worker_that_does_not_serve_is_named_and_one_that_does_is_not(tmp_path: Path) -> None:
    with gateway({"http://127.0.0.1:1": "waiting", "http://127.0.0.1:2": "ready"}) as url:
        lines = list(running_lines(stack(tmp_path, url)))
    assert "  engine     is being started again" in lines and "  gateway    process 17" in lines
    assert "  http://127.0.0.1:1 is waiting" in lines
    assert not any("127.0.0.1:2" in line for line in lines)


def test_a_gateway_that_does_not_answer_is_said_to_be_silent(tmp_path: Path) -> None:
    lines = list(running_lines(stack(tmp_path, f"http://127.0.0.1:{free_port()}")))
    assert "  the gateway does not answer right now" in lines


def test_before_everything_is_ready_it_says_where_to_look(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "data", tmp_path / "config")
    (line,) = running_lines(paths)
    assert "still starting" in line and str(paths.log_dir) in line


def test_it_says_who_has_the_cores_and_why_where_a_trainer_follows_the_load(tmp_path: Path) -> None:
    paths = stack(tmp_path, f"http://127.0.0.1:{free_port()}")
    told = {"mode": "serves", "reason": "3 in flight", "trainer": "waits", "since_s": 4.2, "in_flight": 3, "arrivals_per_s": 0.8}
    (paths.run_dir / "compute.json").write_text(json.dumps(told | {"backlog": 1.5, "trained_share": 0.25, "at_us": 1}))
    lines = list(running_lines(paths))
    assert "  cores      serving has them since 4 s (3 in flight); the trainer waits" in lines
    assert any("0.8 requests/s" in line and "1.5 batches ready" in line and "25%" in line for line in lines)


def test_it_names_the_alarms_that_fire_with_their_rule_and_what_to_do() -> None:
    counts = Status(0, 0, {}, 0, {}, 0, 0, 0, 0, 0, {}, 0, None)
    words = (0.1, "More than 0.1 nats.", "v000007: 0.2 nats.", "Roll back.")
    given = ((False, 0.2), (True, 0.2), (False, None))
    tables = [_table(msgspec.structs.replace(counts, alarms=[Alarm("reward_drop", *one, *words)])) for one in given]
    shown = [[str(cell) for cell in table.columns[1].cells] for table in tables]
    assert "none of 1 fires" in shown[0] and "reward_drop: v000007: 0.2 nats. Roll back. More than 0.1 nats." in shown[1]
    assert "none of 1 fires; too little to judge: reward_drop" in shown[2]
