"""A request that would take the engine from everybody is refused before the engine has it."""

import pytest

from workers.inference.recording import MAX_SAMPLES, MAX_TOP_LOGPROBS, check_prompt_ids, check_sizes


@pytest.mark.parametrize(("num_samples", "top_logprobs"), [(1, None), (1, 0), (MAX_SAMPLES, MAX_TOP_LOGPROBS)])
def test_usual_sizes_pass(num_samples: int, top_logprobs: int | None) -> None:
    check_sizes(num_samples, top_logprobs)


@pytest.mark.parametrize(
    ("num_samples", "top_logprobs", "told"),
    [
        (0, 0, "n must be at least 1"),
        (-1, 0, "n must be at least 1"),
        (100_000, 0, "n must be at most 128"),
        (1, 1_000_000, "top_logprobs must be at most 128"),
    ],
)
def test_sizes_that_harm_others_are_refused(num_samples: int, top_logprobs: int, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        check_sizes(num_samples, top_logprobs)


@pytest.mark.parametrize("prompts", [None, [], [0, 9], [[0], [], [9]]])
def test_ids_of_the_vocabulary_pass(prompts: list[int] | None) -> None:
    check_prompt_ids(prompts, 10)


@pytest.mark.parametrize("prompts", [[10], [-1], [3, 1_000_000_000], [[1], [10]]])
def test_ids_that_the_vocabulary_lacks_are_refused(prompts: list[int]) -> None:
    with pytest.raises(ValueError, match="between 0 and 9"):
        check_prompt_ids(prompts, 10)
