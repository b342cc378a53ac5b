"""[3] learn: the FSDP2 trainer. ``python -m workers.trainer`` on one rank, ``torchrun -m workers.trainer`` on more.

Importing it asks OpenMP to sleep at its barriers, which must be said before torch is loaded: beside an engine on the same cores,
threads that spin there make a step about ten times as long.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
