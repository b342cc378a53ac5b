"""Alarms about learning: rules with stated thresholds over what the store knows, for people and for Prometheus."""
