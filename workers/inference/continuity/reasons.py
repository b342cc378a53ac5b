"""Why a turn was rendered by the engine instead of extending an earlier one. The labels of the counters."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """One label each; the engine's rendering is always a correct, separate branch."""

    FIRST_TURN = "first_turn"
    """No answer in the history."""
    UNKNOWN_HISTORY = "unknown_history"
    """The history was not answered here: another worker, evicted, edited further up, or written by the agent."""
    EDITED_ANSWER = "edited_answer"
    """The history is known, but not with this answer."""
    OTHER_CONTEXT = "other_context"
    """Other tools or template arguments than at the earlier turn."""
    AMBIGUOUS_SIBLING = "ambiguous_sibling"
    """Answers that read the same were sampled with different ids."""
    TRUNCATED = "truncated"
    """The answer was cut by its length limit."""
    STOPPED_BY_STRING = "stopped_by_string"
    """A stop string ended the answer: its ids hold text that the agent never got."""
    OTHER_STOP_TOKEN = "other_stop_token"
    """The answer did not end with a special token, so the template's end of turn is not its last id."""
    HISTORY_REWRITTEN = "history_rewritten"
    """The template renders the history differently now, by more than reasoning."""
    SUFFIX_DIFFERS = "suffix_differs"
    """The template renders the new messages differently after a short history."""
    SUFFIX_REFUSED = "suffix_refused"
    """The template refuses the new messages after a short history."""
    TOO_LONG = "too_long"
    """The kept reasoning would not fit the context any more."""
    NOT_TEXT = "not_text"
    """Images or other parts, or a multimodal model."""
    CONTINUES_MESSAGE = "continues_message"
    """`continue_final_message`, or no generation prompt: the prompt ends inside a message."""
    ADDED_SPECIALS = "added_specials"
    """The tokenizer itself adds special tokens around the template's text."""
    NOT_A_TEMPLATE = "not_a_template"
    """The engine encodes this model's messages without a Jinja template."""
