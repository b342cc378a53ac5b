"""How long what was recorded is kept: erasure, retention, and the legal holds that beat both."""
