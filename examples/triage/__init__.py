"""A support desk: an agent that sorts tickets, a customer desk that judges it, and the tickets."""
