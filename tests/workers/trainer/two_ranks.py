"""What each of two ranks runs in `test_two_ranks_train_as_one`: seven rows, so that one rank has less to do; then an adapter."""

import json
import sys
from pathlib import Path

import torch

from tests.workers.trainer.micro import PLAIN, SCHEDULE, random_rows
from workers.trainer.adapter import AdapterShape
from workers.trainer.policy import Policy
from workers.trainer.ranks import end_process, start_ranks, stop_ranks
from workers.trainer.statistics import merge, summary
from workers.trainer.step import make_optimizer, microbatches, train

SHAPE = AdapterShape(3, 8.0, ("q_proj", "down_proj"))  # a rank that two ranks cannot share evenly


def main(micro: Path, out: Path) -> None:
    """Train one step and leave weights and counts in `out`."""
    ranks = start_ranks()
    policy = Policy(micro, ranks, "float32")
    batches = microbatches(random_rows(1, 7), ranks, 20)
    assert ranks.gather(len(batches)) == [len(batches)] * ranks.world_size
    statistics, _ = train(policy, make_optimizer(policy, 1e-2, 0.0), [batches], PLAIN, SCHEDULE, 0, ranks)
    total = merge(ranks.gather(statistics))
    weights = policy.gather("float32")
    if ranks.is_first:
        torch.save(dict(weights), out / "weights.pt")
        (out / "counts.json").write_text(json.dumps(summary(total)))
    adapted = Policy(micro, ranks, "float32", adapter=SHAPE)
    train(adapted, make_optimizer(adapted, 1e-2, 0.0), [batches], PLAIN, SCHEDULE, 0, ranks)
    adapter = adapted.gather_adapter()
    if ranks.is_first:
        torch.save(adapter, out / "adapter.pt")
    stop_ranks()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
    end_process(0)
