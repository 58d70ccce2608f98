"""Recordings: a run in one file, written by ``./callboard runs export``, and replayed by a test."""
