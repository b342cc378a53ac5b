"""What differs between the APIs that agents speak: paths, ids, errors, and where the end of a stream begins.

Everything else of a call is the same in every dialect. The engine serves all of them itself: nothing is translated here.
"""

from gateway.dialects.table import BY_PATH, CHAT, COMPLETIONS, MESSAGES, RESPONSES, Dialect

__all__ = ["BY_PATH", "CHAT", "COMPLETIONS", "MESSAGES", "RESPONSES", "Dialect"]
