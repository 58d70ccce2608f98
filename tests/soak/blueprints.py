"""A blueprint whose last call fails, for the sweep."""

from __future__ import annotations

from typing import Any

from agents.workflows.blueprint import BaseBlueprint


class Trip(BaseBlueprint):
    """Makes calls that others undo, two of them at once."""

    async def logic(self, data: Any) -> Any:
        self.compensate("send", lambda result: {"value": f"no {result}"})
        paid = await self.execute_by_id("pay", {"value": "a"})
        await self.gather(
            self.execute_by_id("send", {"value": "b"}, compensate=("pay", {"value": "back b"})),
            self.execute_by_id("put", {"value": "c"}, compensate=("put", {"value": "back c"})),
        )
        return await self.execute_by_id("refuse", {"value": paid})
