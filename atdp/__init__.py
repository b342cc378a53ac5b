"""The Agent Trajectory Data Protocol: the language every part of Headrace speaks.

Owns events, rewards, versions and training samples as plain data. It does no network or store I/O and knows no service,
but for ``atdp.client``, which agents take along to send events.
"""

PROTOCOL_VERSION = "1.0"
