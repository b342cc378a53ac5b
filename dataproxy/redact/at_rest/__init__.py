"""Byte search of a data directory: shows that no personal value lies in it in any form anybody would think of.

A search that finds nothing counts only if it finds what was planted: controls go into copies of the real database, logs and
journal segments, in every form and every column, and must all be found first. Not part of serving; a check for operators and
tests. Reports name places and forms, never a value.
"""

from dataproxy.redact.at_rest.search import AtRest, search_at_rest

__all__ = ["AtRest", "search_at_rest"]
