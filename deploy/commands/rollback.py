"""``headrace rollback``: put an earlier set of weights back while traffic runs. The same as ``headrace versions rollback``."""

from deploy.commands.versions_serve import rollback

__all__ = ["rollback"]
