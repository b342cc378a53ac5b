"""People, places and organisations in Chinese, from the tags that jieba gives its words.

Its dictionary takes many given names for places or products, and a family name before one for the everyday word that it is as
well; so a family name belongs to what follows where that can be given. Place: in the lane for names, on lines with Chinese.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_KINDS: Final = {"nr": "PERSON", "nrfg": "PERSON", "nrt": "PERSON", "ns": "PLACE", "nt": "ORG"}
_FAMILY = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾肖田董潘袁蔡蒋余于杜叶程魏苏吕丁任卢姚沈钟姜崔谭陆范汪廖石金"
    "韦贾夏付方邹熊白孟秦邱侯江尹薛闫段雷龙黎史陶贺毛郝顾龚邵万覃武钱戴严莫孔向常汤葛洪樊聂欧佘申项解古云温季康施牛倪柯甘鲍"
)
_GIVEN = frozenset(("nr", "nrt", "nrfg"))
_MAYBE_GIVEN = frozenset(("ns", "nz", "z"))
"""Tags of given names that are also towns, trade marks, or doubled words."""
_PREPOSITION = "p"
_PERSON = rf"[{_FAMILY}][\u4e00-\u9fff]{{1,2}}?"
_CUES = (
    re.compile(rf"{_PERSON}(?=先生|女士|小姐|太太|同学|老师|医生|教授|经理)"),
    re.compile(rf"(?<=[我他她名]叫){_PERSON}(?=[，。,.！!；;、\s]|$)"),
    re.compile(rf"(?<=[人名是为][：:是为]){_PERSON}(?=[，。,.！!；;、\s]|$)"),
)


def named_in(words: Iterable[tuple[str, str]]) -> Iterator[tuple[str, int, int]]:
    """(kind, start, end) of each name of two characters or more in a line, from its words with their tags."""
    at, family = 0, ""
    for word, tag in words:
        end = at + len(word)
        is_given = tag in _GIVEN or (tag in _MAYBE_GIVEN and family not in ("", _PREPOSITION))
        if family and is_given and len(word) <= 2:
            yield "PERSON", at - 1, end
        elif tag in _KINDS and len(word) > 1:
            yield _KINDS[tag], at, end
        family, at = (tag if len(word) == 1 and word in _FAMILY else ""), end


def named_by_cue(line: str) -> Iterator[tuple[int, int]]:
    """Characters [start, end) of each person whom the words around name: a title after, or a word for a name before."""
    for cue in _CUES:
        for match in cue.finditer(line):
            yield match.span()
