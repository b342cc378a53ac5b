"""Held-out scores: where they may come from, and what is said when there is none."""

import sys
from pathlib import Path

import pytest

from workers.trainer.errors import EvaluationFailed
from workers.trainer.evaluation import evaluate

SCORING = "tests.workers.trainer.scoring"


def command(code: str) -> str:
    return f'{sys.executable} -c "{code}" {{directory}}'


def test_a_callable_gives_scores_of_a_version(micro: Path) -> None:
    scores = evaluate(f"{SCORING}:count_tensors", micro, 1.0)
    assert scores["eval_half"] == 0.5 and scores["eval_tensors"] > 10
    assert evaluate(f"{SCORING}:one_number", micro, 1.0) == {"eval_score": 0.25}


def test_the_last_line_of_a_command_is_its_score(tmp_path: Path) -> None:
    (tmp_path / "held_out").write_text("7")
    code = "import sys; print('loading'); print(open(sys.argv[1] + '/held_out').read())"
    assert evaluate(command(code), tmp_path, 60.0) == {"eval_score": 7.0}
    assert evaluate(command("print('{}')".format('{\\"a\\": 1, \\"b\\": 0.5}')), tmp_path, 60.0) == {"eval_a": 1.0, "eval_b": 0.5}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (f"{SCORING}:broken", "RuntimeError: no held-out set"),
        (f"{SCORING}:infinite", "a score is a number"),
        (f"{SCORING}:absent", "is not there"),
        ("no_such_module:score", "is not there"),
        ("/no/such/program {directory}", "cannot be run"),
        (command("print('so good')"), "is not JSON"),
        (command("print('true')"), "a score is a number"),
        (command("pass"), "gave no score"),
        (command("import sys; sys.exit('out of tests')"), "ended with 1: out of tests"),
    ],
)
def test_an_evaluation_without_a_number_says_why(tmp_path: Path, what: str, said: str) -> None:
    with pytest.raises(EvaluationFailed, match=said):
        evaluate(what, tmp_path, 60.0)


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(EvaluationFailed, match="took more than"):
        evaluate(command("import signal; signal.pause()"), tmp_path, 0.1)
