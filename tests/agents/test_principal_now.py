"""The principal of a run is looked up again when an owner picks the run up: its roles, and whether it is disabled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import select, update

from agents.catalogue import as_tool
from agents.handle import RunHandle
from agents.process import current_process
from agents.testing import AgentKit, Turn
from agents.tools.tool import tool
from bus.identity.audit.recording import acting_with
from bus.identity.credentials import keys
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from bus.identity.credentials.keys import ApiKey
from bus.identity.principals import disable, sign_in
from bus.journal.approvals import Decision
from bus.journal.ownership.reaper import fire
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import StatusPayload
from config.database.shared_secret import shared_secret
from config.database.tables import api_keys, timers
from config.identity.principal import Principal, Role
from handlers.run_agent import run_agent
from handlers.worker.maintenance import resume_enabled

ANN = Principal(id="ann", roles=frozenset({Role.OPERATOR, Role.APPROVER}))
calls_made: list[str] = []


@tool(effect="pure")
def open_door() -> str:
    """Open the door."""
    calls_made.append("open")
    return "open"


DOOR = replace(as_tool(open_door), roles=frozenset({Role.OPERATOR}))


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    calls_made.clear()
    with AgentKit(tools=[DOOR], settings={"approval_ttl_s": 60}) as made_kit:
        yield made_kit


def set_disabled(kit: AgentKit, principal: str, *, disabled: bool = True) -> None:
    with kit.runner.journal.database.write() as connection:
        disable(connection, "default", principal, by="root", disabled=disabled)


def key_of(kit: AgentKit, principal: Principal) -> ApiKey:
    form = KeyForm(partial(shared_secret, kit.runner.journal.database, SECRET_NAME))
    form.open()
    with kit.runner.journal.database.write() as connection:
        return keys.create(connection, form, principal, by="root")[0]


def called_with(kit: AgentKit, kind: str, credential_id: str = "") -> RunHandle:
    """Return a call that a request with this credential has left to a worker."""
    token = acting_with.set((kind, credential_id))
    try:
        return kit.runner.call_tool("open_door", {}, agent_id="tester", principal=ANN, detached=True)
    finally:
        acting_with.reset(token)


def work_on(handle: RunHandle) -> None:
    """Be the worker that gets the run's wake-up."""
    run_agent(RunAgentMessage(run_id=handle.run_id, agent_id="tester", thread_id=handle.thread_id).to_wire())


def reason_of(handle: RunHandle) -> str | None:
    """Return why the run failed, once a worker has worked on it; None where it succeeded."""
    work_on(handle)
    return handle.result(10).reason


def waits_of(handle: RunHandle) -> list[str | None]:
    return [event.reason for event in handle.events() if isinstance(event, StatusPayload) and event.status == "waiting"]


# --- roles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["process", "local", "none", "service", "certificate"])
def test_roles_that_the_database_does_not_have_are_those_of_the_start(kit: AgentKit, kind: str) -> None:
    assert reason_of(called_with(kit, kind)) is None
    assert calls_made == ["open"]


def test_a_key_gives_its_roles_until_it_ends(kit: AgentKit) -> None:
    key = key_of(kit, ANN)
    before, after = called_with(kit, "key", key.id), called_with(kit, "key", key.id)

    assert reason_of(before) is None
    with kit.runner.journal.database.write() as connection:
        keys.revoke(connection, key.id, "default", by="root")

    assert reason_of(after) == "role_missing"
    assert calls_made == ["open"]


def test_an_expired_key_gives_no_roles(kit: AgentKit) -> None:
    key = key_of(kit, ANN)
    handle = called_with(kit, "key", key.id)
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(api_keys).values(expires_ms=1))

    assert reason_of(handle) == "role_missing"


def test_a_person_has_the_roles_of_the_last_sign_in(kit: AgentKit) -> None:
    handles = []
    for roles in ({Role.OPERATOR, Role.VIEWER}, {Role.VIEWER}):
        handles.append(called_with(kit, "session", "ses_1"))
        with kit.runner.journal.database.write() as connection:
            sign_in(connection, replace(ANN, roles=frozenset(roles)))
        if len(handles) == 1:
            assert reason_of(handles[0]) is None

    assert reason_of(handles[1]) == "role_missing"


def test_roles_that_a_principal_got_later_are_not_those_of_its_earlier_runs(kit: AgentKit) -> None:
    plain = replace(ANN, roles=frozenset())
    token = acting_with.set(("session", "ses_1"))
    handle = kit.runner.call_tool("open_door", {}, agent_id="tester", principal=plain, detached=True)
    acting_with.reset(token)
    with kit.runner.journal.database.write() as connection:
        sign_in(connection, ANN)

    assert reason_of(handle) == "role_missing"


# --- disabled -----------------------------------------------------------------------------------


def test_a_disabled_principals_run_waits_until_it_is_enabled(kit: AgentKit) -> None:
    handle = called_with(kit, "process")
    set_disabled(kit, "ann")

    work_on(handle)

    row = kit.runner.journal.readers.runs.row(ANN, handle.run_id)
    assert (row.status, row.reason, calls_made) == ("waiting", "principal_disabled", [])
    assert "principals enable ann" in row.detail
    assert resume_enabled(current_process()) == []
    set_disabled(kit, "ann", disabled=False)
    assert resume_enabled(current_process()) == [handle.run_id]
    assert reason_of(handle) is None
    assert (calls_made, waits_of(handle)) == (["open"], ["principal_disabled"])


def test_with_fail_a_disabled_principals_run_ends() -> None:
    with AgentKit(tools=[DOOR], settings={"disabled_principal": "fail"}) as kit:
        handle = called_with(kit, "process")
        set_disabled(kit, "ann")

        assert reason_of(handle) == "principal_disabled"


def test_a_run_that_waits_for_its_principal_too_long_fails(kit: AgentKit) -> None:
    handle = called_with(kit, "process")
    set_disabled(kit, "ann")
    work_on(handle)
    database = kit.runner.journal.database
    with database.read() as connection:
        timer = connection.execute(select(timers).where(timers.c.run_id == handle.run_id)).one()

    written = fire(database, handle.run_id, timer.id)

    assert written is not None
    assert handle.result(10).reason == "principal_disabled"


def test_a_run_that_waits_for_its_principal_can_be_stopped(kit: AgentKit) -> None:
    handle = called_with(kit, "process")
    set_disabled(kit, "ann")
    work_on(handle)

    handle.cancel()

    assert handle.result(10).status == "cancelled"


def test_a_principal_that_is_disabled_while_its_run_waits_for_approval_does_not_get_the_call(kit: AgentKit) -> None:
    kit.agent(tools=[replace(DOOR, confirm=True)])
    handle = called_with(kit, "process")
    work_on(handle)
    set_disabled(kit, "ann")
    handle.decide(handle.approvals()[0]["approval_id"], Decision(decision="approve"), by="bob")

    work_on(handle)

    assert (handle.status(), calls_made) == ("waiting", [])
    set_disabled(kit, "ann", disabled=False)
    resume_enabled(current_process())
    assert reason_of(handle) is None
    assert calls_made == ["open"]


def test_an_approval_does_not_count_once_its_approver_is_disabled(kit: AgentKit) -> None:
    kit.agent(tools=[replace(DOOR, confirm=True)])
    handle = called_with(kit, "process")
    work_on(handle)
    (first,) = handle.approvals()
    handle.decide(first["approval_id"], Decision(decision="approve"), by="bob")
    set_disabled(kit, "bob")

    work_on(handle)

    (again,) = handle.approvals()
    assert (again["approval_id"] == first["approval_id"], calls_made) == (False, [])


def test_the_installations_own_principal_is_served_without_authentication(kit: AgentKit) -> None:
    set_disabled(kit, "local")
    kit.model.script(Turn(text="Hello."))

    assert kit.play().end.status == "succeeded"
