"""The shop's Celery application; nothing in it is about Callboard."""

import os

from celery import Celery

app = Celery("shop", broker=os.environ["SHOP_REDIS"], backend=os.environ["SHOP_REDIS"])
app.conf.update(task_default_queue="shop", task_track_started=True, broker_connection_retry_on_startup=True)


@app.task
def pack(item: str) -> str:
    """Pack an item."""
    return f"one {item} is packed"
