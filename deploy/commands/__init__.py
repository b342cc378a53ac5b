"""One file per command of ``headrace``. They read arguments, ask a client or the launcher, and print."""
