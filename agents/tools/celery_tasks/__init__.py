"""Celery tasks of other applications as tools; how they are sent and read is in ``bus/celery_tasks``."""
