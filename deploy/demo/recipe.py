"""How the demo trains: settings of the trainer and the data proxy that differ from their defaults, and why."""

from collections.abc import Mapping
from typing import Final

RECIPE: Final[Mapping[str, str]] = {
    "HEADRACE_DATAPROXY_SETTLE_S": "0.2",  # a ticket is one conversation and its reward ends it
    "HEADRACE_TRAINER_BATCH_TRAJECTORIES": "32",
    "HEADRACE_TRAINER_POLL_S": "0.2",
    "HEADRACE_TRAINER_CHECKPOINT_EVERY": "1000",  # a run of minutes starts again rather than resume
    "HEADRACE_TRAINER_COMPUTE": '{"follow_load": false, "nice": 0}',  # its agents never pause, and its minutes are for learning
}
