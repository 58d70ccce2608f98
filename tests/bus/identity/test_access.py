"""The one decision: who may do what, for one object and for the rows of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any, NamedTuple

import orjson
import pytest
from sqlalchemy import Boolean, Column, Connection, MetaData, String, Table, create_engine, insert, select

from bus.identity.access import may, may_administer, may_see_machines, may_start, require, rows_for, sees_agent
from bus.identity.errors import FORBIDDEN
from config.definitions.agent import AgentDefinition
from config.definitions.loading import pinned_definition
from config.identity.principal import LOCAL, Principal, Role, Verb
from tests.raising import raises

objects = Table(
    "objects",
    MetaData(),
    Column("tenant", String),
    Column("principal", String),
    Column("agent_id", String),
    Column("private", Boolean),
)


class Row(NamedTuple):
    tenant: str
    principal: str
    private: bool
    agent_id: str


ROWS = [
    dict(zip(objects.c.keys(), row, strict=True))
    for row in product(("acme", "zeta"), ("ana", "ben"), ("assistant", "ledger"), (False, True))
]
ROLES = [frozenset(some) for count in range(len(Role) + 1) for some in combinations(Role, count)]
AGENTS = (None, frozenset({"ledger"}), frozenset[str]())


def ana(*roles: Role, **more: frozenset[Verb] | frozenset[str]) -> Principal:
    return Principal(tenant="acme", id="ana", roles=frozenset(roles), **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with create_engine("sqlite://").begin() as connection:
        objects.metadata.create_all(connection)
        connection.execute(insert(objects), ROWS)
        yield connection


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("agents", AGENTS, ids=str)
@pytest.mark.parametrize("roles", ROLES, ids=lambda roles: "+".join(sorted(roles)) or "none")
def test_a_query_has_the_rows_that_the_decision_allows(
    roles: frozenset[Role], agents: frozenset[str] | None, verb: Verb, connection: Connection
) -> None:
    principal = Principal(tenant="acme", id="ana", roles=roles, agents=agents)

    rows = connection.execute(select(objects).where(rows_for(principal, verb, objects))).all()

    everything = connection.execute(select(objects)).all()
    assert rows == [row for row in everything if may(principal, verb, row)]


def reached(principal: Principal, verb: Verb, connection: Connection) -> set[tuple[str, bool]]:
    """Return the principal and the privacy of each object that is reached; it has to be of the same tenant."""
    rows = connection.execute(select(objects).where(rows_for(principal, verb, objects))).all()
    assert {row.tenant for row in rows} <= {principal.tenant}
    return {(row.principal, row.private) for row in rows}


OWN = {("ana", False), ("ana", True)}
SHARED = OWN | {("ben", False)}
ALL = SHARED | {("ben", True)}


@pytest.mark.parametrize(
    ("roles", "see", "control", "decide"),
    [
        ((), OWN, OWN, OWN),
        ((Role.VIEWER,), SHARED, OWN, OWN),
        ((Role.OPERATOR,), SHARED, SHARED, OWN),
        ((Role.APPROVER,), SHARED, OWN, SHARED),
        ((Role.OPERATOR, Role.APPROVER), SHARED, SHARED, SHARED),
        ((Role.ADMIN,), ALL, ALL, ALL),
    ],
)
def test_what_each_role_reaches(
    roles: tuple[Role, ...],
    see: set[tuple[str, bool]],
    control: set[tuple[str, bool]],
    decide: set[tuple[str, bool]],
    connection: Connection,
) -> None:
    reach = [reached(ana(*roles), verb, connection) for verb in (Verb.SEE, Verb.CONTROL, Verb.DECIDE)]

    assert reach == [see, control, decide]


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
def test_only_an_admin_administers(role: Role, connection: Connection) -> None:
    assert reached(ana(role), Verb.ADMINISTER, connection) == set()
    assert reached(ana(Role.ADMIN), Verb.ADMINISTER, connection) == ALL


@pytest.mark.parametrize("verb", [verb for verb in Verb if verb is not Verb.SEE])
def test_the_scope_of_a_credential_narrows_what_roles_allow(verb: Verb, connection: Connection) -> None:
    narrow = ana(*Role, verbs=frozenset(Verb) - {verb})

    assert reached(narrow, verb, connection) == set()
    assert reached(narrow, next(other for other in Verb if other is not verb), connection) == ALL


def test_every_credential_may_see_what_its_principal_sees(connection: Connection) -> None:
    assert reached(ana(Role.VIEWER, verbs=frozenset({Verb.START})), Verb.SEE, connection) == SHARED


def agent(**access: Any) -> AgentDefinition:
    content = {"name": "A", "model": "demo/a", "system_prompt": "You help.", "access": access}
    return pinned_definition("ledger", "d" * 64, orjson.dumps(content).decode())


@pytest.mark.parametrize(
    ("access", "principal", "sees", "may_start_it"),
    [
        ({}, ana(), True, True),
        ({}, ana(agents=frozenset({"ledger"})), True, True),
        ({}, ana(Role.ADMIN, agents=frozenset({"other"})), False, False),
        ({}, ana(Role.ADMIN, verbs=frozenset({Verb.SEE})), True, False),
        ({"tenants": ["acme"]}, ana(), True, True),
        ({"tenants": ["zeta"]}, ana(Role.ADMIN), False, False),
        ({"principals": ["ana"]}, ana(), True, True),
        ({"principals": ["ben"]}, ana(Role.OPERATOR), True, False),
        ({"roles": ["operator"]}, ana(Role.OPERATOR), True, True),
        ({"roles": ["operator"]}, ana(Role.VIEWER), True, False),
        ({"roles": ["operator"], "principals": ["ana"]}, ana(), True, True),
        ({"roles": ["operator"]}, ana(Role.ADMIN), True, True),
        ({"tenants": ["acme"], "roles": ["operator"]}, ana(), True, False),
    ],
)
def test_who_sees_an_agent_and_who_may_start_it(
    access: dict[str, Any], principal: Principal, sees: bool, may_start_it: bool
) -> None:
    definition = agent(**access)

    assert sees_agent(principal, definition) is sees
    assert (sees and may_start(principal, definition)) is may_start_it


def test_a_refusal_names_who_may() -> None:
    row = Row(tenant="acme", principal="ben", private=False, agent_id="ledger")

    with raises(FORBIDDEN) as by_role:
        require(ana(Role.VIEWER), Verb.CONTROL, row, "this run")
    with raises(FORBIDDEN) as by_scope:
        require(ana(verbs=frozenset({Verb.SEE})), Verb.DECIDE, row, "this run")

    others = "its owner may, and so may a principal with the role operator or admin."
    assert str(by_role.value) == f"you may not stop or delete this run; {others}"
    remedy = "use a credential whose scope has the verb 'decide'."
    assert str(by_scope.value) == f"you may not answer the approvals of this run; {remedy}"


def test_the_local_principal_may_do_everything_in_its_tenant(connection: Connection) -> None:
    assert {(LOCAL.tenant, LOCAL.id)} == {("default", "local")}
    assert all(LOCAL.reach(verb) == max(LOCAL.reach(other) for other in Verb) for verb in Verb)


@pytest.mark.parametrize("decision", [may_administer, may_see_machines])
def test_what_belongs_to_no_agent_is_for_admins_whose_credential_is_for_all_agents(
    decision: Callable[[Principal], bool],
) -> None:
    admin = Principal(id="ana", roles=frozenset({Role.ADMIN}))

    assert decision(admin)
    assert not decision(replace(admin, agents=frozenset({"ledger"})))
    assert not decision(replace(admin, verbs=frozenset({Verb.SEE})))
    assert not decision(replace(admin, roles=frozenset(Role) - {Role.ADMIN}))
