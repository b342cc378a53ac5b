"""The command line and the one-machine launcher. Knows how the parts are started; knows nothing of what they do inside."""
