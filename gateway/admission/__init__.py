"""Admission: concurrency, rates and budgets of keys, and the fair queue in front of the workers.

Owns who may call now. It knows nothing of HTTP; the counts that several processes share lie on the ``board``.
"""

from gateway.admission.admission import Admission
from gateway.admission.board import Board
from gateway.admission.queue import QueueBounds
from gateway.admission.ticket import Ticket

__all__ = ["Admission", "Board", "QueueBounds", "Ticket"]
