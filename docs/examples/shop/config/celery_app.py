"""The shop's Celery application."""

import os

from celery import Celery

app = Celery("shop", broker=os.environ["SHOP_REDIS"], backend=os.environ["SHOP_REDIS"], include=["orders.tasks"])
app.conf.update(task_default_queue="shop", task_acks_late=True, broker_connection_retry_on_startup=True)
