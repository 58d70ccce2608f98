"""Celery tasks of other applications as tools; how they are sent and read is in ``bus/celery_tasks``."""

PREFIX = "celery:"
"""How a definition writes that a tool is a task of a Celery application."""
