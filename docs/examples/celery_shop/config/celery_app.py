"""The shop's Celery application; nothing in it is about Callboard."""

import os

from celery import Celery

app = Celery(
    "shop", broker=os.environ["SHOP_BROKER_URL"], backend=os.environ["SHOP_RESULT_URL"], include=["shop.tasks"]
)
app.conf.update(
    task_default_queue=os.environ.get("SHOP_QUEUE", "shop"),
    task_track_started=True,
    broker_connection_retry_on_startup=True,
)
