"""One SGLang server: its model, its plug-in, its client, its weight swaps."""
