"""The public edge: authenticates, relays the engine's bytes to the agent, and hands every exchange to the journal.

Follow a call through ``edge`` → ``relay`` → ``upstream``. It keeps no state but caches, so replicas scale it out.
"""
