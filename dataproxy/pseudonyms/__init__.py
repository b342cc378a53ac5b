"""Pseudonyms: an agent's request with realistic surrogates for its personal values, made before a model sees it.

Owns surrogates and their placing in a request. Not owned: finding values (`dataproxy.redact`), putting them back into the answer
(`gateway.pseudonyms`). Place in the path: beside it; a gateway asks over the data proxy's socket, for tenants that want it alone.
"""
