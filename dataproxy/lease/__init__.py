"""Leases: trajectories lent to a trainer until a deadline, each trained at most so often, staleness checked on the way out."""
