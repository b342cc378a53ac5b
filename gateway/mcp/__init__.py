"""A pass-through in front of MCP servers (streamable HTTP): bytes as they come, tool calls and resource reads on record.

Owns the servers' file, the relay, and what goes into the journal. Not owned: MCP itself, which is read and never changed. Loaded
only where the file names a server.
"""
