"""HTTP/1.1 towards the engine and the data proxy: connections on httptools, and a pool that keeps them alive.

Owns bytes, back-pressure and time limits. It knows nothing of what they mean.
"""
