"""Assembly: which call continues which, and what sequences a trajectory gives the trainer."""
