"""Admission: concurrency, rates and budgets of keys, and the fair queue in front of the workers.

Owns who may call now. It knows nothing of HTTP; the counts that several processes share lie on the ``board``.
"""

from gateway.admission.admission import Admission, QueueBounds, Ticket
from gateway.admission.board import Board

__all__ = ["Admission", "Board", "QueueBounds", "Ticket"]
