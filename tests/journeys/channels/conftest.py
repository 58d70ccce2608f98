"""A Callboard that wants credentials, an agent that asks before it calculates, and two persons of a channel's table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import pytest

from callboard_client import Callboard
from config.identity.principal import Principal, Role
from tests.app_harness import AppHarness
from tests.credentials import key_of
from tests.fleet import Worker
from tests.journeys.test_web_killed import MortalWeb
from tests.model_server import Call, Turn

Tables: TypeAlias = dict[str, tuple[str, str, str]]
"""A person's id at the platform -> the principal, its key, and what the person decides."""


class GuardedWeb(MortalWeb):
    """A web process that wants a credential."""

    def __init__(self, harness: AppHarness) -> None:
        super().__init__(harness, "web")
        self.settings = self.settings.model_copy(update={"auth": "required"})


@pytest.fixture(scope="module")
def web(fleet_harness: AppHarness, worker: Worker) -> Iterator[GuardedWeb]:
    fleet_harness.agent()
    guarded = GuardedWeb(fleet_harness)
    with guarded:
        yield guarded


@pytest.fixture(scope="module")
def people(fleet_harness: AppHarness, ids: tuple[str, str]) -> Tables:
    """Ana decides about her own runs, and Ben, an approver, about everyone's; ``ids`` are theirs at the platform."""
    settings, (ana, ben) = fleet_harness.settings, ids
    approver = Principal(id="ben", roles=frozenset({Role.APPROVER}))
    return {
        ana: ("ana", key_of(settings, Principal(id="ana")), "own"),
        ben: ("ben", key_of(settings, approver), "all"),
    }


@pytest.fixture
def ana(web: GuardedWeb, people: Tables, ids: tuple[str, str]) -> Iterator[Callboard]:
    """A client with Ana's key."""
    with Callboard(web.address, people[ids[0]][1]) as client:
        yield client


def ask_before_calculating(harness: AppHarness) -> None:
    """Have the agent ask a person before it calculates, and answer with the result."""
    harness.agent("tools: [calculator, ask_user]\ntool_overrides: {calculator: {confirm: true}}")
    harness.model.respond = _calculates


def _calculates(body: Mapping[str, Any]) -> Turn:
    last = body["messages"][-1]
    if last["role"] == "tool":
        return Turn(text=f"It says: {last['content']}")
    return Turn(calls=[Call(name="calculator", arguments={"expression": "17 * 23"})])


def ask_for_a_ticket(harness: AppHarness) -> None:
    """Have the agent ask for a form, and answer with what was filled in."""
    fields = {
        "seats": {"type": "integer", "title": "How many seats"},
        "class": {"type": "string", "enum": ["1st", "2nd"]},
    }
    form = {"type": "object", "properties": fields, "required": ["seats"]}
    asks = Call(name="ask_user", arguments={"question": "Which ticket?", "form": form})

    def turn(body: Mapping[str, Any]) -> Turn:
        last = body["messages"][-1]
        return Turn(text=f"Booked: {last['content']}") if last["role"] == "tool" else Turn(calls=[asks])

    harness.model.respond = turn
