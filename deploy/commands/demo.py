"""``headrace demo``: the whole loop on one small job, before and after."""


def demo() -> None:
    """Start Headrace, let an agent work, learn from its rewards, and show that it got better."""
