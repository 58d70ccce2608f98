"""Versions of agents and their aliases, on each database."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from bus.journal.storage.agent_versions import CANARY, AgentVersions, Alias
from config.database.engine import Database
from config.database.tables import audit
from config.errors import CallboardError
from config.identity.principal import LOCAL
from tests.bus.racing import at_once

ONE, TWO, THREE = (digit * 64 for digit in "123")


@pytest.fixture
def versions(database: Database) -> AgentVersions:
    store = AgentVersions(database)
    store.register("clerk", ONE, '{"model":"m","name":"A"}')
    store.register("clerk", TWO, '{"model":"m","name":"B"}')
    store.register("clerk", THREE, '{"model":"n","name":"B"}')
    return store


def serving(versions: AgentVersions) -> dict[str, int]:
    return {name: alias.number for name, alias in versions.aliases("clerk").items()}


def test_each_content_has_one_number_for_ever(versions: AgentVersions) -> None:
    versions.register("clerk", ONE, "{}")
    versions.register("other", ONE, '{"model":"m"}')

    assert [(row["version"], row["digest"]) for row in versions.listed("clerk")] == [(3, THREE), (2, TWO), (1, ONE)]
    assert [row["version"] for row in versions.listed("other")] == [1]
    assert versions.content(ONE) == '{"model":"m","name":"A"}'


def test_versions_that_differ_in_names_alone_behave_alike(versions: AgentVersions) -> None:
    third, second, first = (row["behaviour"] for row in versions.listed("clerk"))

    assert first == second != third


def test_the_last_version_is_the_one_that_the_file_had_last(versions: AgentVersions) -> None:
    versions.register("clerk", ONE, "{}")  # the file was put back

    last = versions.last("clerk")

    assert last is not None
    assert last.number in (1, 3)  # both may be of one millisecond
    assert versions.last("unknown") is None


def test_processes_that_register_at_once_give_different_numbers(database: Database) -> None:
    stores = [AgentVersions(database) for _ in range(4)]

    at_once(4, lambda index: stores[index].register("clerk", f"{index}" * 64, "{}"))

    assert sorted(row["version"] for row in stores[0].listed("clerk")) == [1, 2, 3, 4]


def test_a_promotion_is_seen_at_once_and_audited(versions: AgentVersions, database: Database) -> None:
    versions.promote(LOCAL, "clerk", 2)
    versions.promote(LOCAL, "clerk", 3, CANARY, 25)

    assert serving(versions) == {"stable": 2, "canary": 3}
    assert [row["aliases"] for row in versions.listed("clerk")] == [{"canary": 25}, {"stable": 100}, {}]
    with database.read() as connection:
        actions = connection.execute(select(audit.c.action, audit.c.target_id)).all()
    assert actions == [("agent.promoted", "clerk")] * 2


def test_a_rollback_ends_the_canary_and_then_goes_to_the_version_before(versions: AgentVersions) -> None:
    for number in (1, 3, 2):
        versions.promote(LOCAL, "clerk", number)
    versions.promote(LOCAL, "clerk", 1, CANARY, 10)

    seen = []
    for _ in range(3):
        versions.roll_back(LOCAL, "clerk")
        seen.append(serving(versions))

    assert seen == [{"stable": 2}, {"stable": 3}, {"stable": 2}]  # what served before, and then lower numbers


def test_a_rollback_without_an_alias_goes_to_the_version_before_the_file_s(versions: AgentVersions) -> None:
    versions.roll_back(LOCAL, "clerk")

    assert serving(versions) == {"stable": 2}


def test_a_stable_version_ends_the_canary_and_latest_ends_both(versions: AgentVersions) -> None:
    versions.promote(LOCAL, "clerk", 1)
    versions.promote(LOCAL, "clerk", 2, CANARY, 50)
    versions.promote(LOCAL, "clerk", 2)
    assert serving(versions) == {"stable": 2}

    assert versions.promote(LOCAL, "clerk", None) == {}
    assert serving(versions) == {}


def test_an_alias_to_nothing_is_refused_with_what_there_is(versions: AgentVersions, database: Database) -> None:
    with pytest.raises(CallboardError, match="no version 9; its versions, the newest first: 3, 2, 1"):
        versions.promote(LOCAL, "clerk", 9)
    with pytest.raises(CallboardError, match="has no stable version"):
        versions.promote(LOCAL, "clerk", 3, CANARY, 10)
    AgentVersions(database).register("new", ONE, "{}")
    with pytest.raises(CallboardError, match="no version before"):
        versions.roll_back(LOCAL, "new")
    assert serving(versions) == {}


def test_a_thread_stays_on_its_side_when_the_share_grows() -> None:
    threads = [f"default/local/thr_{number}" for number in range(2000)]
    small, large = (Alias(number=1, digest=ONE, share=share, by="ana", at_ms=0) for share in (10, 30))

    of_small = {thread for thread in threads if small.takes("clerk", thread)}
    of_large = {thread for thread in threads if large.takes("clerk", thread)}

    assert of_small < of_large
    assert 140 < len(of_small) < 260
    assert of_small != {thread for thread in threads if small.takes("other", thread)}
