"""The API on the Unix socket: who asks, what they may, and the answers. Everything else is in the packages it calls."""
