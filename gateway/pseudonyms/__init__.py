"""Pseudonyms on the way: surrogates go to the engine, values come back to the agent. For tenants that ask for it alone.

Owns the asking and the putting back, in answers and streams of every dialect. Not owned: finding values and drawing surrogates,
which the data proxy does (`dataproxy.pseudonyms`). Place in the path: between admission and the relay, and between the relay and
the agent.
"""
