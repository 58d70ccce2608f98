"""A Callboard that wants credentials, with a Discord and persons that the bot's table has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callboard_client import Callboard
from config.identity.principal import Principal, Role
from tests.app_harness import AppHarness
from tests.credentials import key_of
from tests.fleet import Worker
from tests.journeys.test_web_killed import MortalWeb
from tests.observers.channels.bot import Bot
from tests.observers.channels.fake_discord import FakeDiscord

ANA, BEN = "1", "2"


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
def people(fleet_harness: AppHarness) -> dict[str, tuple[str, str, str]]:
    """Ana decides about her own runs, and Ben, an approver, about everyone's."""
    settings = fleet_harness.settings
    ben = Principal(id="ben", roles=frozenset({Role.APPROVER}))
    return {
        ANA: ("ana", key_of(settings, Principal(id="ana")), "own"),
        BEN: ("ben", key_of(settings, ben), "all"),
    }


@pytest.fixture
def ana(web: GuardedWeb, people: dict[str, tuple[str, str, str]]) -> Iterator[Callboard]:
    """A client with Ana's key."""
    with Callboard(web.address, people[ANA][1]) as client:
        yield client


@pytest.fixture
def discord() -> Iterator[FakeDiscord]:
    with FakeDiscord() as started:
        yield started


@pytest.fixture
def make_bot(
    tmp_path: Path, discord: FakeDiscord, web: GuardedWeb, people: dict[str, tuple[str, str, str]]
) -> Callable[..., Bot]:
    """Makes a bot of this test's own, which is not started; what is given are further lines of its file."""
    return lambda more="", server=web.address: Bot(tmp_path, discord, server, people, more)


@pytest.fixture
def bot(make_bot: Callable[..., Bot]) -> Iterator[Bot]:
    with make_bot() as started:
        yield started
