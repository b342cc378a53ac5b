"""What is kept of responses is bounded, shared items are counted once, and what was used last stays."""

import json

from hypothesis import given
from hypothesis import strategies as st

from workers.inference.dialects.store import History


def item(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def size(*items: dict[str, str]) -> int:
    return sum(len(json.dumps(one, separators=(",", ":"))) for one in items)


def test_a_conversation_that_grows_counts_each_item_once() -> None:
    history = History(print)
    first, second, third = item("a" * 100), item("b" * 50), item("c")
    history["r1"] = [first, second]
    history["r2"] = [*history["r1"], third]
    assert history.size_bytes == size(first, second, third)
    del history["r1"]
    assert history.size_bytes == size(first, second, third)
    del history["r2"]
    assert history.size_bytes == 0 and len(history) == 0


def test_beyond_the_number_the_one_unused_for_longest_goes_with_its_response() -> None:
    gone: list[str] = []
    history = History(gone.append, max_responses=2)
    for name in ("r1", "r2"):
        history[name] = [item(name)]
    assert history["r1"] == [item("r1")]
    history["r3"] = [item("r3")]
    assert gone == ["r2"] and set(history) == {"r1", "r3"} and "r2" not in history


def test_beyond_the_bytes_old_ones_go_but_never_the_last() -> None:
    gone: list[str] = []
    history = History(gone.append, max_bytes=200)
    history["small"] = [item("x")]
    history["large"] = [item("x" * 1000)]
    assert gone == ["small"] and list(history) == ["large"]


def test_a_response_that_is_set_again_is_counted_again_not_twice() -> None:
    history, asked, answered = History(print), item("question"), item("answer")
    history["r1"] = [asked]
    history["r1"] = [asked, answered]
    assert history.size_bytes == size(asked, answered)


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 5), max_size=4)), max_size=30))
def test_the_count_is_that_of_the_distinct_items_that_are_kept(writes: list[tuple[int, list[int]]]) -> None:
    pool = [item("x" * 10 * at) for at in range(6)]
    history = History(lambda name: None, max_responses=4, max_bytes=150)
    for response, chosen in writes:
        history[str(response)] = [pool[at] for at in chosen]
        kept = {id(one): one for name in list(history) for one in history[name]}
        assert history.size_bytes == size(*kept.values())
        assert len(history) <= 4 and (history.size_bytes <= 150 or len(history) == 1)
