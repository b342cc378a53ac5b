"""Errors of the launcher and the command line. Each message is a whole sentence for a person, and says what to do.

DeployError
├── AlreadyRunning     another Headrace has this data directory
├── PortTaken          something else listens on the port
├── NameTaken          a model of another provider has the name of our own
├── NotEnoughMemory    the machine cannot hold the processes
├── StartFailed        a process ended, or did not get ready in time; carries its last log lines
├── NotRunning         a command needs a running Headrace and there is none
└── DemoFailed         the demo cannot show what it is there to show
"""


class DeployError(Exception):
    """Root; printed as it is, without a traceback."""


class AlreadyRunning(DeployError):
    """The data directory is in use."""


class PortTaken(DeployError):
    """The port is in use."""


class NameTaken(DeployError):
    """Two models would answer to one name."""


class NotEnoughMemory(DeployError):
    """Too little memory is free."""


class StartFailed(DeployError):
    """A process did not start."""


class NotRunning(DeployError):
    """Nobody to talk to."""


class DemoFailed(DeployError):
    """A phase of the demo failed."""
