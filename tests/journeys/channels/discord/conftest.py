"""A Discord and a bot of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.journeys.channels.conftest import GuardedWeb, Tables
from tests.observers.channels.bot import Bot
from tests.observers.channels.fake_discord import FakeDiscord

ANA, BEN = "1", "2"


@pytest.fixture(scope="module")
def ids() -> tuple[str, str]:
    return ANA, BEN


@pytest.fixture
def discord() -> Iterator[FakeDiscord]:
    with FakeDiscord() as started:
        yield started


@pytest.fixture
def make_bot(tmp_path: Path, discord: FakeDiscord, web: GuardedWeb, people: Tables) -> Callable[..., Bot]:
    """Makes a bot of this test's own, which is not started; what is given are further lines of its file."""
    return lambda more="", server=web.address: Bot(tmp_path, discord, server, people, more)


@pytest.fixture
def bot(make_bot: Callable[..., Bot]) -> Iterator[Bot]:
    with make_bot() as started:
        yield started
