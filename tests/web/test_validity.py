"""Callers that were authenticated are checked again: by their key, their principal, and the end of their credential."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from bus.identity import principals
from bus.identity.credentials import keys
from bus.identity.credentials.credential import Caller, Credential, CredentialKind
from bus.identity.validity import can_end, ended
from bus.journal import Journal
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.clock import epoch_ms
from config.database.errors import DatabaseUnreachable
from config.identity.principal import Principal, Role
from tests.web.conftest import eventually
from tests.web.test_keys import make
from web.feeds import viewers as module
from web.feeds.viewer_counts import Reports, ViewerCounts
from web.feeds.viewers import Stream, Viewer, Viewers

ANONYMOUS = Caller(principal=Principal(), credential=Credential(kind=CredentialKind.NONE))
LOCAL = Caller(principal=Principal(), credential=Credential(kind=CredentialKind.LOCAL))


def service(name: str = "billing", lives_s: int = 60, *roles: Role) -> Caller:
    credential = Credential(kind=CredentialKind.SERVICE, expires_ms=epoch_ms() + lives_s * 1000)
    return Caller(principal=Principal(id=name, roles=frozenset(roles)), credential=credential)


def test_callers_without_a_credential_do_not_end(journal: Journal) -> None:
    assert [can_end(caller) for caller in (ANONYMOUS, LOCAL, service())] == [False, False, True]
    assert ended(journal.database, [ANONYMOUS, LOCAL, service()]) == frozenset()


def test_a_service_ends_with_its_token_and_its_principal(journal: Journal) -> None:
    valid, expired, disabled = service(), service(lives_s=-1), service("shipping")
    with journal.database.write() as connection:
        principals.disable(connection, "default", "shipping", by="root")

    assert ended(journal.database, [valid, expired, disabled]) == {expired, disabled}


def test_a_key_ends_when_it_is_revoked_or_stands_for_less(journal: Journal) -> None:
    (valid, _), (revoked, _), (changed, _) = make(journal), make(journal), make(journal)
    with journal.database.write() as connection:
        keys.revoke(connection, revoked.id, None, by="root")
    more = Caller(principal=Principal(id="ci", roles=frozenset({Role.ADMIN})), credential=changed.caller.credential)

    assert ended(journal.database, [valid.caller, revoked.caller, more]) == {revoked.caller, more}


class _Transport:
    def __init__(self) -> None:
        self.is_dropped = False

    def set_write_buffer_limits(self, *_: int) -> None: ...
    def write(self, _: bytes) -> None: ...
    def is_closing(self) -> bool:
        return self.is_dropped

    def abort(self) -> None:
        self.is_dropped = True


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> ProcessLoop:
    monkeypatch.setattr(module, "RECHECK_S", 0.001)
    return ProcessLoop()


def connected(viewers: Viewers, loop: ProcessLoop, caller: Caller | None) -> tuple[Viewer, Any]:
    owner = caller.principal if caller is not None else Principal()
    viewer, transport = Viewer(viewers, Stream, 0, caller, owner), _Transport()

    async def connect() -> None:
        viewer.connection_made(transport)  # type: ignore[arg-type]  # as much of a transport as a viewer uses

    loop.run(connect())
    return viewer, transport


def watched(loop: ProcessLoop, ended: Any) -> Viewers:
    return Viewers(loop, ended, ViewerCounts(loop, lambda *_: 0, Reports(Keys("default"), None)))


def test_each_caller_is_asked_for_once_and_only_its_viewers_end(loop: ProcessLoop) -> None:
    caller_groups: list[tuple[Caller, ...]] = []
    gone: set[Caller] = set()

    def check(callers: Any) -> set[Caller]:
        caller_groups.append(callers)
        return gone

    viewers, ends, stays = watched(loop, check), service(), service("shipping")
    dropped = [connected(viewers, loop, ends)[1] for _ in range(3)]
    transports = [connected(viewers, loop, caller)[1] for caller in (stays, None)]
    eventually(lambda: bool(caller_groups))

    gone.add(ends)

    eventually(lambda: all(transport.is_dropped for transport in dropped))
    assert not any(transport.is_dropped for transport in transports)
    assert sorted(map(str, caller_groups[-1])) == sorted(map(str, {ends, stays}))
    loop.run(close(viewers))


def test_the_record_of_a_dropped_viewer_has_its_principal(loop: ProcessLoop, caplog: pytest.LogCaptureFixture) -> None:
    gone: set[Caller] = set()
    viewers, ends = watched(loop, lambda _: gone), service("shipping")
    connected(viewers, loop, service("ann"))
    _, transport = connected(viewers, loop, ends)

    with caplog.at_level(logging.INFO):
        gone.add(ends)
        eventually(lambda: transport.is_dropped)

    record = next(entry for entry in caplog.records if "credential is no longer valid" in entry.message)
    assert (vars(record)["tenant"], vars(record)["principal"]) == ("default", "shipping")
    loop.run(close(viewers))


def test_streams_stay_while_the_database_is_away(loop: ProcessLoop, caplog: pytest.LogCaptureFixture) -> None:
    answers: list[bool] = []
    ends = service()

    def check(_: Any) -> set[Caller]:
        answers.append(len(answers) >= 5)
        if not answers[-1]:
            raise DatabaseUnreachable("the database does not answer")
        return {ends}

    viewers = watched(loop, check)
    _, transport = connected(viewers, loop, ends)
    eventually(lambda: len(answers) >= 3)
    assert not transport.is_dropped or answers[-1]

    eventually(lambda: transport.is_dropped)

    assert caplog.text.count("credentials of open streams not checked") == 1
    loop.run(close(viewers))


async def close(viewers: Viewers) -> None:
    for task in viewers._keeping:
        task.cancel()
    await asyncio.sleep(0)
