"""The data proxy: capture → journal → redact → admit → store → assemble → lease.

The one process that opens the store and holds the journal's private key. Others reach it through ``dataproxy.client``; the gateway
also imports ``dataproxy.capture``, which writes history and cannot read it, and ``keyfiles`` and ``pseudonym_types`` beside it.
"""
