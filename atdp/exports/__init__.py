"""Events and trajectories in the forms that others read: JSON lines, ATIF, chat messages, OTLP, columns for Parquet.

Pure functions from the protocol's types to plain values. Files are written elsewhere (``deploy.exports``).
"""
