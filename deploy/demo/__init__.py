"""The demo: one small job, one agent, one user, and whether the agent got better by rewards alone.

``arm`` is one run from start to end; ``plan`` says how long; ``actors`` are the agent and the user, processes that know a base URL
and a key; ``measure`` and ``at_rest`` read what the store and the disk hold afterwards; ``table`` and ``curve`` show it.
"""
