"""What develops Callboard: checks, tests, measurements, locks, and the writers of contracts and of docs/errors.md.

No command for users imports anything here.
"""
