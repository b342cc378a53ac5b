"""Writes exports to files: one format a module, rows as they come, whole files or none.

Owns files. Not owned: what a row looks like (``atdp.exports``), and reading the store (the data proxy's client).
"""
