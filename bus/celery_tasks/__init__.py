"""Celery tasks of other applications: sent by name, with results read from the application's backend.

Nothing of the application is imported here, nor the other way round. What a backend holds was written by another
program: it is read as JSON, never unpickled, and no exception class that it names is looked up.
"""
