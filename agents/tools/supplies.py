"""A tool that orders office supplies: an example of a call that costs money and needs a person's approval."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from agents.errors import PathRefused
from agents.tools.call_context import current_call
from agents.tools.isolation.sandbox import Sandbox
from agents.tools.tool import tool
from config.clock import stamp

ORDERS = "orders.jsonl"
PRICES_EUR = {"paper": 24.90, "pens": 8.50, "coffee": 13.20, "envelopes": 11.00, "toner": 79.00, "notebooks": 15.60}
"""One box each."""


@tool(effect="unsafe", confirm=True, title="Order {boxes} boxes of {item}", timeout_s=20)
def order_supplies(
    item: Literal["paper", "pens", "coffee", "envelopes", "toner", "notebooks"],
    boxes: Annotated[int, Field(ge=1, le=100)],
    note: Annotated[str, Field(max_length=2000)] = "",
) -> dict[str, Any]:
    """Order boxes of an office supply. The order is placed at once and cannot be taken back.

    Args:
        item: what to order.
        boxes: how many boxes.
        note: a line for the person who unpacks it.
    """
    call = current_call()
    order = {
        "order": call.call_id,
        "item": item,
        "boxes": boxes,
        "total_eur": round(PRICES_EUR[item] * boxes, 2),
        "note": note,
        "by": call.principal,
        "at": stamp(),
    }
    sandbox = Sandbox(call.sandbox, quota=call.quota)
    try:
        book = sandbox.read_text(ORDERS)
    except PathRefused as error:
        if "no such file" not in str(error):
            raise
        book = ""
    sandbox.write_text(ORDERS, book + orjson.dumps(order).decode() + "\n")
    return order
