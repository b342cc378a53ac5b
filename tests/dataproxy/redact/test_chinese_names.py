"""Names in Chinese: a family name goes with the given name after it, whatever the tagger took either of them for."""

import pytest

from dataproxy.redact.chinese_names import named_by_cue, named_in


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([("我", "r"), ("叫", "v"), ("王", "nr"), ("玉兰", "nr")], [("PERSON", 2, 5)]),
        ([("廖", "nr"), ("建国", "ns")], [("PERSON", 0, 3)]),  # a given name, tagged as a town
        ([("是", "v"), ("谢", "v"), ("坤", "ns")], [("PERSON", 1, 3)]),  # a family name, tagged as a verb
        ([("田", "n"), ("婷婷", "z"), ("和", "c"), ("财务部", "nt")], [("PERSON", 0, 3), ("ORG", 4, 7)]),
        ([("王小明", "nr"), ("去", "v"), ("北京", "ns")], [("PERSON", 0, 3), ("PLACE", 4, 6)]),
        ([("向", "p"), ("上海", "ns"), ("走", "v")], [("PLACE", 1, 3)]),  # "towards Shanghai"
        ([("高", "a"), ("价格", "n")], []),
        ([("王", "nr"), ("，", "x"), ("红梅", "nr")], [("PERSON", 2, 4)]),
    ],
)
def test_a_family_name_belongs_to_what_can_be_given(words: list[tuple[str, str]], found: list[tuple[str, int, int]]) -> None:
    assert list(named_in(words)) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("尊敬的陈畅先生：您好", ["陈畅"]),
        ("您好，我叫曾想，请回复", ["曾想"]),
        ("联系人：贾建军", ["贾建军"]),
        ("收件人是谢坤，地址没有变", ["谢坤"]),
        ("请把包裹寄给我", []),
        ("各位先生，早上好", []),
    ],
)
def test_a_title_or_a_word_for_a_name_names(line: str, found: list[str]) -> None:
    assert [line[start:end] for start, end in named_by_cue(line)] == found
