"""Threads that are forked, and runs that continue from what an earlier run has recorded."""
