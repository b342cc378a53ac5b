"""zstd dictionaries by their id, and how they were made. Never change one: stored frames name it."""
