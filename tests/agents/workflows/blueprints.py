"""Blueprints that tests run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from agents.workflows.blueprint import BaseBlueprint, execute_dagger_capability
from config.errors import CallboardError


class Order(BaseModel):
    id: str
    amount: float


class OrderBlueprint(BaseBlueprint):
    """Reserves, charges, waits for the parcel, and tells."""

    input_model = Order

    async def logic(self, data: Any) -> Any:
        at, key, dice = self.now(), self.uuid(), self.random()
        self.compensate("cancel", lambda result: {"id": result["id"]})
        reserved = await self.execute_by_id("book", {"what": f"hotel-{data.id}"})
        first, second = await self.gather(
            self.execute_by_id("book", {"what": "a"}, compensate=("cancel", {"id": "a"})),
            self.execute_by_id("book", {"what": "b"}, compensate=("cancel", {"id": "b"})),
        )
        await self.sleep(0.2)
        parcel = await self.wait_for("shipped", timeout_s=60)
        if parcel["broken"]:
            await self.execute_by_id("book", {"what": "bad"})
        return {
            "at": at.isoformat(),
            "key": str(key),
            "dice": dice,
            "ids": [reserved["id"], first["id"], second["id"]],
            "parcel": parcel,
        }


class ChangedBlueprint(BaseBlueprint):
    """Books what its code says at the moment, and waits."""

    what = "first"
    """Changed by a test, as a new release changes code."""

    async def logic(self, data: Any) -> Any:
        booked = await self.execute_by_id("book", {"what": self.what})
        await self.wait_for("shipped")
        return booked["id"]


class BoundBlueprint(BaseBlueprint):
    """Asks for a capability that its definition does not list."""

    async def logic(self, data: Any) -> Any:
        return await self.execute_by_id("rm_rf", {})


class FaultyBlueprint(BaseBlueprint):
    """Has a fault."""

    async def logic(self, data: Any) -> Any:
        return 1 // 0


class StubbornBlueprint(BaseBlueprint):
    """Catches each error that it can."""

    async def logic(self, data: Any) -> Any:
        with suppress(Exception):
            await self.execute_by_id("forbidden", {})
        return await self.execute_by_id("book", {"what": "x"})


class ClumsyBlueprint(BaseBlueprint):
    """Names no call that undoes, or none that can be made."""

    async def logic(self, data: Any) -> Any:
        undoing = "cancle" if data.get("typo") else "cancel"
        self.compensate(undoing, lambda result: {"id": result["no such field"]})
        await self.execute_by_id("book", {"what": "x"})


class WaitingBlueprint(BaseBlueprint):
    """Waits for the signal that its input names."""

    async def logic(self, data: Any) -> Any:
        return await self.wait_for(data["signal"], timeout_s=60)


class RemindingBlueprint(BaseBlueprint):
    """Waits for a signal again: after a reminder, at once in two branches, or once more after it was taken."""

    async def logic(self, data: Any) -> Any:
        if data["way"] == "beside":
            return await self.gather(self.wait_for("shipped"), self.wait_for("shipped"))
        with suppress(CallboardError):
            await self.wait_for("shipped", timeout_s=0.05)
        parcel = await self.wait_for("shipped")
        return await self.wait_for("shipped") if data["way"] == "twice" else parcel


class LeakingBlueprint(BaseBlueprint):
    """Reads what others wrote and what must not leave, and sends."""

    async def logic(self, data: Any) -> Any:
        await self.gather(self.execute_by_id("page"), self.execute_by_id("salaries"))
        return await self.execute_by_id("send", {"text": "hi"})


class ForwardingBlueprint(BaseBlueprint):
    """Sends what an agent answers, or the error with which it fails."""

    async def logic(self, data: Any) -> Any:
        try:
            text = await self.execute_by_id("agent:writer", {"message": "hi"})
        except CallboardError as error:
            text = str(error)
        return await self.execute_by_id("send", {"text": text})


class FirstDesignBlueprint(BaseBlueprint):
    """Calls by the name of the first design, for itself or for others, waits, and says what its contexts are."""

    async def logic(self, data: Any) -> Any:
        golden, security = self.golden, self.security
        assert golden is not None
        assert security is not None
        ctx = replace(golden, **data.get("ctx", {}))
        more = {"ctx": ctx, "trace_id": golden.trace_id, "run_as": security.initiator_id, **data.get("more", {})}
        booked = await execute_dagger_capability(cap_id=data["cap_id"], input=data["input"], **more)
        await self.wait_for("shipped")
        return {"booked": booked, "app": golden.app_id, "roles": sorted(security.roles), "trace": security.trace_id}


class BookingBlueprint(BaseBlueprint):
    """Books."""

    async def logic(self, data: Any) -> Any:
        return await self.execute_by_id("book", {"what": "room"})


class CatchingBlueprint(BaseBlueprint):
    """Says what it catches, behind a pause."""

    async def logic(self, data: Any) -> Any:
        try:
            await self.execute_by_id("pay", {"n": 7})
        except CallboardError as error:
            await self.sleep(0.01)
            return [error.code, str(error)]


class FinallyBlueprint(BaseBlueprint):
    """Books behind its wait, whatever becomes of that."""

    async def logic(self, data: Any) -> Any:
        try:
            return await self.wait_for("shipped")
        finally:
            await self.execute_by_id("book", {"what": "late"})


class GatheringBlueprint(BaseBlueprint):
    """Waits for a signal, or for a call whose outcome is not known, beside a call that is done or fails."""

    async def logic(self, data: Any) -> Any:
        with suppress(Exception):
            other = self.execute_by_id("linger") if data["lingers"] else self.wait_for("shipped")
            return await self.gather(self.execute_by_id("book", {"what": data["what"]}), other)
        return await self.execute_by_id("book", {"what": "after"})


class Limits(BaseModel):
    most: int


class LimitedBlueprint(BaseBlueprint):
    """Says its definition's limit."""

    config_model = Limits

    async def logic(self, data: Any) -> Any:
        return self.config.most
