"""After an arm: is any personal value of the tickets to be found on the disk? The data proxy's own search answers, as a process.

It plants controls in copies of the real files first and must find each; only then does finding nothing mean something.
"""

import json
import subprocess
import sys
import tempfile

from deploy.demo.plan import ArmResult
from deploy.errors import DemoFailed
from deploy.paths import Paths

_TIMEOUT_S = 900.0
_BASE_VERSION = "v000000"


def search(paths: Paths, result: ArmResult) -> None:
    """Fill the last fields of ``result``: every value of every ticket is looked for in the data and configuration directories.

    Raises:
        DemoFailed: the search itself failed.
    """
    from examples.triage.tickets import personal_values

    with tempfile.NamedTemporaryFile("w", suffix=".json") as values:
        json.dump(personal_values(), values)
        values.flush()
        tokenizer = paths.data_dir / "versions" / _BASE_VERSION / "tokenizer.json"
        where = [str(paths.data_dir), "--config-dir", str(paths.config_dir), "--tokenizer", str(tokenizer)]
        command = [sys.executable, "-m", "dataproxy.redact.at_rest", *where, "--values", values.name, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    try:
        summary = json.loads(done.stdout)
    except ValueError as error:
        raise DemoFailed(f"the search at rest failed:\n{done.stderr[-2000:]}") from error
    result.num_values_searched = int(summary["num_values"])
    result.num_values_found = int(summary["found"])
    result.planted_found = bool(summary["planted_found"])
    result.places_found = [f"{place} ({how})" for _, place, how, _ in summary["where"]][:10]
