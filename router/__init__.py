"""Which worker serves a call: rendezvous hashing with bounded load, in the gateway's own process.

Owns the choice and each worker's state. It does no I/O: whoever polls the workers reports here. It never proxies.
"""
