"""Metrics: counted from the log by an observer that tails it, once for each event, and served for Prometheus."""
