"""Niceness counts in a session of one's own as well, and nobody else's session is changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.trainer.niceness import OWN_SESSION

ENABLED = Path("/proc/sys/kernel/sched_autogroup_enabled")
_LEAST = 19  # the kernel's lowest priority: whoever runs the tests may have lowered theirs already
SCRIPT = """
import os
from pathlib import Path
from workers.trainer.niceness import be_nice
be_nice(7)
print(os.nice(0), Path("/proc/self/autogroup").read_text().split()[-1])
"""


@pytest.mark.skipif(not ENABLED.exists(), reason="this kernel does not schedule by session")
@pytest.mark.parametrize(("own", "group"), [({OWN_SESSION: "1"}, "7"), ({}, "0")])
def test_a_session_that_is_its_own_gives_way_as_a_whole(own: dict[str, str], group: str) -> None:
    before = os.nice(0)
    environment = {name: value for name, value in os.environ.items() if name != OWN_SESSION} | own
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True, start_new_session=True
    )
    assert done.stdout.split() == [str(min(before + 7, _LEAST)), group]
