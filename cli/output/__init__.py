"""Runs, approvals and answers printed on a terminal."""
