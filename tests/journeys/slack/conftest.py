"""A Callboard that wants credentials, with a Slack and persons that the app's table has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callboard_client import Callboard
from config.identity.principal import Principal, Role
from tests.app_harness import AppHarness
from tests.credentials import key_of
from tests.fleet import Worker
from tests.journeys.discord.conftest import GuardedWeb
from tests.observers.channels.bot import ChannelProcess, People, table_of
from tests.observers.channels.fake_slack import APP_TOKEN, SECRET, TOKEN, FakeSlack

ANA, BEN, STRANGER = "UANA", "UBEN", "UNEW"
Tables = dict[str, tuple[str, str, str]]


class SlackBot(ChannelProcess):
    """The process `./callboard slack`."""

    def __init__(self, folder: Path, slack: FakeSlack, server: str, people: People, way_in: str) -> None:
        lines = [f"server: {server}", "slack:", "  token: ${SLACK_TOKEN}", way_in, f"  api: {slack.api}"]
        lines += ["  agent: tester", f"  people: {table_of(people)}"]
        secrets = {"SLACK_TOKEN": TOKEN, "SLACK_APP_TOKEN": APP_TOKEN, "SLACK_SECRET": SECRET}
        super().__init__(folder, "slack", lines, people, **secrets)


@pytest.fixture(scope="module")
def web(fleet_harness: AppHarness, worker: Worker) -> Iterator[GuardedWeb]:
    fleet_harness.agent()
    guarded = GuardedWeb(fleet_harness)
    with guarded:
        yield guarded


@pytest.fixture(scope="module")
def people(fleet_harness: AppHarness) -> Tables:
    """Ana decides about her own runs, and Ben, an approver, about everyone's."""
    settings = fleet_harness.settings
    ben = Principal(id="ben", roles=frozenset({Role.APPROVER}))
    return {
        ANA: ("ana", key_of(settings, Principal(id="ana")), "own"),
        BEN: ("ben", key_of(settings, ben), "all"),
    }


@pytest.fixture
def ana(web: GuardedWeb, people: Tables) -> Iterator[Callboard]:
    """A client with Ana's key."""
    with Callboard(web.address, people[ANA][1]) as client:
        yield client


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as started:
        yield started


@pytest.fixture
def make_bot(tmp_path: Path, slack: FakeSlack, web: GuardedWeb, people: Tables) -> Callable[..., SlackBot]:
    """Makes an app of this test's own, which is not started; what is given is how Slack's events come."""
    return lambda way_in="  app_token: ${SLACK_APP_TOKEN}": SlackBot(tmp_path, slack, web.address, people, way_in)


@pytest.fixture
def bot(make_bot: Callable[..., SlackBot]) -> Iterator[SlackBot]:
    with make_bot() as started:
        yield started
