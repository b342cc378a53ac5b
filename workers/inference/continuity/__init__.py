"""Keeps conversations joined: a prompt is the ids of the deepest earlier turn plus the encoding of what is new.

Follow `turns` (what is kept) → `messages` (what identifies a turn) → `echo` (is that our answer?) → `splice` (is the
template append-only here?) → `extend` (the decision and its counts) → `hooks` (where SGLang calls it). The rule and
its cost: docs/decisions/0011-continuity.md.
"""
