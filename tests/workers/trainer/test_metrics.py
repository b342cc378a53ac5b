"""What is told of a step: a JSON line, Prometheus text in a file and over HTTP, TensorBoard events."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from workers.trainer.metrics import Reporter
from workers.trainer.paths import TrainerPaths
from workers.trainer.prometheus import MEANING, Exporter, render
from workers.trainer.settings import Settings

NUMBERS = {"reward_mean": 0.5, "entropy": 1.25, "grad_norm": float("inf"), "step_s": 2.0}


def settings(directory: Path, **changes: object) -> Settings:
    places = {"data_dir": directory, "config_dir": Path("c"), "model_path": Path("m"), "engine_urls": ["http://e"]}
    return Settings(**(places | changes))  # type: ignore[arg-type]


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """By name and labels, as Prometheus' own client reads it."""
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_prometheus_client_reads_the_text() -> None:
    found = parsed(render(NUMBERS | {"steps_total": 3.0}, {"stale": 2}))
    assert found["headrace_trainer_reward_mean", ()] == 0.5 and found["headrace_trainer_grad_norm", ()] == float("inf")
    assert found["headrace_trainer_steps_total", ()] == 3.0 and found["headrace_trainer_left_out", (("reason", "stale"),)] == 2.0


def test_each_step_is_told_in_the_file_and_the_line(tmp_path: Path) -> None:
    paths = TrainerPaths(tmp_path)
    reporter = Reporter(settings(tmp_path), paths)
    for index in (1, 2):
        reporter.report(f"v00000{index}", f"v00000{index - 1}", {"reward_mean": float(index)}, {"stale": 1})
    reporter.close()
    assert [json.loads(line)["reward_mean"] for line in paths.metrics.read_text().splitlines()] == [1.0, 2.0]
    found = parsed(paths.prometheus.read_text())
    assert found["headrace_trainer_version", ()] == found["headrace_trainer_steps_total", ()] == 2.0


def test_metrics_are_served_until_closed() -> None:
    exporter = Exporter("127.0.0.1", 0)
    exporter.text = render({"entropy": 1.0}, {})
    address = f"http://127.0.0.1:{exporter.port}"
    with urllib.request.urlopen(f"{address}/metrics") as answer:
        assert parsed(answer.read().decode())["headrace_trainer_entropy", ()] == 1.0
    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        urllib.request.urlopen(f"{address}/other")
    refused.value.close()
    exporter.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}/metrics")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard's own imports
def test_tensorboard_reads_every_number_at_its_version(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    paths = TrainerPaths(tmp_path)
    reporter = Reporter(settings(tmp_path, tensorboard=True), paths)
    reporter.report("v000007", "v000006", {"reward_mean": 0.5, "entropy": 2.0}, {})
    reporter.close()
    events = EventAccumulator(str(paths.tensorboard)).Reload()
    assert set(events.Tags()["scalars"]) == {"reward_mean", "entropy"}
    assert [(event.step, event.value) for event in events.Scalars("reward_mean")] == [(7, 0.5)]


def test_every_number_of_the_list_has_a_meaning() -> None:
    wanted = "reward_mean advantage_std entropy kl_reference clip_fraction limited_fraction staleness_mean logprob_diff_median"
    assert {*wanted.split(), "grad_norm", "trained_tokens_per_s"} <= MEANING.keys()
