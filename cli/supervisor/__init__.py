"""Keeping child processes running: web, workers and the embedded Redis of one machine."""
