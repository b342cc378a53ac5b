"""Rewards beyond a single piece of feedback: agents' rules, dead letters, built-in sources, the next-state judge."""
