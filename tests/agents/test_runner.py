"""As whom a runner acts, and which agents it starts for whom."""

from __future__ import annotations

import pytest

from agents.errors import AgentUnknown
from agents.models.scripted import Turn
from agents.testing import AgentKit
from bus.identity.errors import AGENT_FORBIDDEN
from bus.journal.errors import RunUnknown
from config.errors import ErrorKind
from config.identity.principal import Principal, Role, Verb
from tests.raising import raises

ANA, BEN = Principal(tenant="acme", id="ana"), Principal(tenant="acme", id="ben")


def test_the_settings_say_as_whom_it_acts() -> None:
    with AgentKit(settings={"tenant": "acme", "principal": "ana"}) as kit:
        kit.model.script(Turn(text="Hello."))
        run = kit.runner.run("Hi", "tester")
        run.result(10)

        row = kit.runner.journal.readers.runs.row(ANA, run.run_id)

        assert (row.tenant, row.principal) == ("acme", "ana")
        with pytest.raises(RunUnknown):
            kit.runner.handle(run.run_id, BEN)
        with pytest.raises(RunUnknown):
            kit.runner.handle(run.run_id, Principal(roles=frozenset(Role)))


@pytest.mark.parametrize(
    ("principal", "error"),
    [
        (BEN, AGENT_FORBIDDEN),
        (Principal(tenant="acme", id="ana", verbs=frozenset({Verb.SEE})), AGENT_FORBIDDEN),
        (Principal(tenant="acme", id="ana", agents=frozenset({"other"})), AgentUnknown),
        (Principal(tenant="zeta", id="ana", roles=frozenset(Role)), AgentUnknown),
    ],
    ids=["principal", "verb", "agent", "tenant"],
)
def test_a_run_that_may_not_be_started_leaves_nothing(principal: Principal, error: ErrorKind) -> None:
    with AgentKit(access={"tenants": ["acme"], "principals": ["ana"]}) as kit:
        with raises(error):
            kit.runner.run("Hi", "tester", principal=principal)

        assert kit.runner.journal.readers.runs.newest(Principal(tenant="acme", id="boss", roles=frozenset(Role))) == []


@pytest.mark.parametrize(
    ("principal", "remedy"),
    [
        (BEN, "`access:` in its definition"),
        (Principal(tenant="acme", id="ana", verbs=frozenset({Verb.SEE})), "'start'"),
    ],
    ids=["principal", "verb"],
)
def test_a_refused_start_names_what_refuses_it(principal: Principal, remedy: str) -> None:
    with (
        AgentKit(access={"tenants": ["acme"], "principals": ["ana"]}) as kit,
        raises(AGENT_FORBIDDEN, match=remedy),
    ):
        kit.runner.run("Hi", "tester", principal=principal)


def test_runs_of_a_private_agent_are_their_principals_and_admins() -> None:
    with AgentKit(access={"runs": "private"}) as kit:
        kit.model.script(Turn(text="Hello."))
        run = kit.runner.run("Hi", "tester", principal=ANA)
        run.result(10)

        kit.runner.handle(run.run_id, Principal(tenant="acme", id="boss", roles=frozenset({Role.ADMIN})))
        with pytest.raises(RunUnknown):
            kit.runner.handle(run.run_id, Principal(tenant="acme", id="ops", roles=frozenset({Role.OPERATOR})))
