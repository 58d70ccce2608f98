"""Runs that no process holds a lease of: their transitions, which of them workers take, and their waits for tasks."""
