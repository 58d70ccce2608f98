"""Removal of ended runs, threads and logs: by age (retention), and on request."""
