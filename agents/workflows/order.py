"""The blueprint of the workflow `order`, which ships as an example (docs/blueprints.md)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agents.workflows.blueprint import BaseBlueprint


class OrderInput(BaseModel):
    """What is ordered."""

    item: str
    quantity: int = 1
    country: str


class Order(BaseBlueprint):
    """Reserves, charges and ships; each call is registered together with the call that undoes it."""

    input_model = OrderInput

    async def logic(self, data: OrderInput) -> dict[str, Any]:
        """Return the reservation, the charge and the parcel."""
        self.compensate("release_stock", lambda result: {"reservation": result["reservation"]})
        reserved = await self.execute_by_id("reserve_stock", {"item": data.item, "quantity": data.quantity})
        self.compensate("refund_card", lambda result: {"charge": result["charge"]})
        charged = await self.execute_by_id("charge_card", {"amount_eur": reserved["price_eur"]})
        parcel = await self.execute_by_id(
            "ship_order", {"reservation": reserved["reservation"], "country": data.country}
        )
        return {
            "ordered_at": self.now().isoformat(timespec="seconds"),
            "reservation": reserved["reservation"],
            "charge": charged["charge"],
            "parcel": parcel["parcel"],
            "price_eur": reserved["price_eur"],
        }
