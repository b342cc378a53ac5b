"""[3] learn: the FSDP2 trainer. ``python -m workers.trainer`` on one rank, ``torchrun -m workers.trainer`` on more."""
