"""The shop's tasks: plain Celery, without a word about Callboard but two options."""

import time
from typing import Literal

from config.celery_app import app
from shop import ledger

ORDERS = {"A-1001": 25.0, "A-1002": 140.0}


class OrderUnknown(Exception):
    """There is no such order."""


@app.task(callboard={"effect": "pure", "timeout_s": 30})
def find_order(number: str) -> dict[str, object]:
    """Return an order with its price in euros.

    Args:
        number: the order's number, such as A-1001.
    """
    if number not in ORDERS:
        raise OrderUnknown(f"there is no order {number}")
    return {"number": number, "price": ORDERS[number]}


@app.task(bind=True, callboard={"timeout_s": 120})
def refund(self, number: str, reason: Literal["broken", "late", "unwanted"] = "unwanted", slowly: float = 0.0) -> dict:
    """Pay the price of an order back to its customer.

    Args:
        number: the order's number, such as A-1001.
        reason: why the customer sends it back.
        slowly: seconds that the payment provider takes, for trying things out.
    """
    ledger.write(f"begin {self.request.id} {number}")
    time.sleep(slowly)
    ledger.write(f"paid {self.request.id} {number} {ORDERS[number]:.2f} {reason}")
    return {"number": number, "paid_back": ORDERS[number]}
