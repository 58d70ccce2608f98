"""Versions of agents: each content of an agent's file that served, with its number, and the aliases that say which one
new runs get.

A version never changes: its number stands for one digest, whose content is in ``definitions``.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, delete, select

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.journal.errors import ALIAS_REFUSED, VERSION_UNKNOWN
from bus.journal.records.definition_store import insert_into, keep_content, register
from config.clock import stamp
from config.database.engine import WALL_MS, Database
from config.database.tables import agent_aliases, agent_versions, definitions
from config.fresh import FreshFor
from config.identity.principal import Principal

STABLE, CANARY = "stable", "canary"
ALIASES_S = 1.0
"""Seconds after which a process sees aliases that another one has changed."""
WHOLE = 100
"""The share of an alias that all threads get, in percent."""
_BUCKETS = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentVersion:
    """One content of an agent's file."""

    agent_id: str
    number: int
    digest: str
    """Of the whole content."""
    behaviour: str
    """Of what decides how a run behaves; two versions with the same one differ in names and descriptions alone."""
    created_ms: int

    def shown(self, aliases: Mapping[str, Alias]) -> dict[str, Any]:
        """Return it as the interfaces show it."""
        own = {name: alias for name, alias in aliases.items() if alias.number == self.number}
        facts: dict[str, Any] = {"version": self.number, "digest": self.digest, "behaviour": self.behaviour}
        facts |= {"created_at": stamp(self.created_ms), "aliases": {name: alias.share for name, alias in own.items()}}
        return facts | {"promoted": {name: {"by": each.by, "at": stamp(each.at_ms)} for name, each in own.items()}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """What ``stable`` or ``canary`` of an agent stands for."""

    number: int
    digest: str
    share: int
    """Percent of the threads that get it."""
    by: str
    """The principal that promoted it."""
    at_ms: int

    def takes(self, agent_id: str, thread: str) -> bool:
        """Return whether a thread is among those that get it; a larger share keeps all threads of a smaller one."""
        drawn = int.from_bytes(hashlib.sha256(f"{agent_id}\0{thread}".encode()).digest()[:8], "big") % _BUCKETS
        return drawn * WHOLE < self.share * _BUCKETS


Aliases = Mapping[str, Alias]
"""By ``stable`` and ``canary``, those that an agent has."""


class AgentVersions:
    """Lists the versions of agents, and says and changes which of them serve. Safe for any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._aliases = FreshFor[Mapping[str, Aliases]]()
        self._registered: dict[str, str] = {}

    def register(self, agent_id: str, digest: str, content_json: str) -> None:
        """Give the content of an agent's file its number; what this process registered last is not written again."""
        if self._registered.get(agent_id) == digest:
            return
        with self._database.write() as connection:
            keep_content(connection, agent_id, digest, content_json)
            register(connection, agent_id, digest, content_json, is_in_file=True)
        self._registered[agent_id] = digest

    def aliases(self, agent_id: str) -> Aliases:
        """Return the aliases of an agent as they were at most ``ALIASES_S`` ago."""
        return self._aliases.get(ALIASES_S, self._read_aliases).get(agent_id, {})

    def chosen(self, agent_id: str, thread: str) -> Alias | None:
        """Return the alias whose version serves a thread, which is named among all of the deployment's; None: the file.

        An empty name is that of no thread, which gets no canary.
        """
        aliases = self.aliases(agent_id)
        canary = aliases.get(CANARY)
        is_canary = canary is not None and thread != "" and canary.takes(agent_id, thread)
        return canary if is_canary else aliases.get(STABLE)

    def last(self, agent_id: str) -> AgentVersion | None:
        """Return the version that the agent's file had last; None where none was registered."""
        with self._database.read() as connection:
            row = connection.execute(_LAST, {"agent_": agent_id}).first()
        return _version(row) if row is not None else None

    def content(self, digest: str) -> str | None:
        """Return a version's content as JSON; None where it is not kept."""
        with self._database.read() as connection:
            return connection.execute(_CONTENT, {"digest_": digest}).scalar()

    def listed(self, agent_id: str) -> list[dict[str, Any]]:
        """Return an agent's versions as the interfaces show them, the newest first."""
        with self._database.read() as connection:
            rows = connection.execute(_VERSIONS, {"agent_": agent_id}).all()
            aliases = _aliases(connection).get(agent_id, {})
        return [_version(row).shown(aliases) for row in rows]

    def one(self, agent_id: str, number: int) -> AgentVersion:
        """Return a version of an agent.

        Raises:
            VERSION_UNKNOWN: the agent has none of this number; the message names those that it has.
        """
        with self._database.read() as connection:
            return _one(connection, agent_id, number)

    def promote(
        self, principal: Principal, agent_id: str, number: int | None, alias: str = STABLE, share: int = WHOLE
    ) -> Aliases:
        """Let new runs get a version, and return the agent's aliases; without a number what the file says serves again.

        With ``canary`` a ``share`` of the threads gets it, in percent; with ``stable`` all do, and a canary ends.

        Raises:
            VERSION_UNKNOWN: the agent has no version of this number, or its content is not kept.
            ALIAS_REFUSED: there is no stable version that a canary could share the threads with.
        """
        with self._database.write() as connection:
            aliases = _aliases(connection).get(agent_id, {})
            if number is None:
                connection.execute(delete(agent_aliases).where(agent_aliases.c.agent_id == agent_id))
            else:
                _one(connection, agent_id, number)
                if alias == CANARY and STABLE not in aliases:
                    raise ALIAS_REFUSED(
                        f"agent '{agent_id}' has no stable version, with which a canary would share the threads; "
                        f"promote one first: ./callboard agents promote {agent_id} VERSION.",
                        agent_id=agent_id,
                    )
                _point(connection, principal, agent_id, alias, number, share)
                if alias == STABLE:
                    _end_canary(connection, agent_id)
            facts: dict[str, Any] = {"version": number, "verb": "promote"}
            if number is not None:
                facts |= {"alias": alias, "share": share}
            record(connection, principal, Action.AGENT_PROMOTED, "agent", agent_id, **facts)
            aliases = _aliases(connection).get(agent_id, {})
        self._aliases = FreshFor()  # this process's next run gets what was committed
        return aliases

    def roll_back(self, principal: Principal, agent_id: str) -> Aliases:
        """Take the last promotion back, and return the aliases: a canary ends, else the version before is stable.

        Raises:
            ALIAS_REFUSED: there is no version before.
        """
        with self._database.write() as connection:
            rows = {row.alias: row for row in connection.execute(_OF_AGENT, {"agent_": agent_id})}
            if CANARY in rows:
                _end_canary(connection, agent_id)
                number = rows[STABLE].number if STABLE in rows else None
            else:
                number = _before(connection, agent_id, rows.get(STABLE))
                _point(connection, principal, agent_id, STABLE, number, WHOLE, is_back=True)
            facts: dict[str, Any] = {"version": number, "verb": "rollback", "ended": CANARY if CANARY in rows else None}
            record(connection, principal, Action.AGENT_PROMOTED, "agent", agent_id, **facts)
            aliases = _aliases(connection).get(agent_id, {})
        self._aliases = FreshFor()  # this process's next run gets what was committed
        return aliases

    def _read_aliases(self) -> Mapping[str, Aliases]:
        with self._database.read() as connection:
            return _aliases(connection)


def _aliases(connection: Connection) -> Mapping[str, Aliases]:
    by_agent = defaultdict[str, dict[str, Alias]](dict)
    for row in connection.execute(_ALIASES):
        facts = {"share": row.share, "by": row.changed_by, "at_ms": row.changed_ms}
        alias = Alias(number=row.number, digest=row.digest, **facts)
        by_agent[row.agent_id][row.alias] = alias
    return by_agent


def _version(row: Row[Any]) -> AgentVersion:
    return AgentVersion(**{name: getattr(row, name) for name in AgentVersion.__slots__})


def _one(connection: Connection, agent_id: str, number: int) -> AgentVersion:
    rows = connection.execute(_VERSIONS, {"agent_": agent_id}).all()
    row = next((row for row in rows if row.number == number), None)
    if row is None:
        numbers = ", ".join(str(row.number) for row in rows[:20]) or "none yet; start a run of it"
        raise VERSION_UNKNOWN(
            f"agent '{agent_id:.80}' has no version {number}; its versions, the newest first: {numbers}.",
            agent_id=agent_id,
        )
    if connection.execute(_CONTENT, {"digest_": row.digest}).scalar() is None:
        raise VERSION_UNKNOWN(
            f"the content of version {number} of agent '{agent_id:.80}' is not kept any more; write it into the "
            "agent's file again, and `./callboard agents` registers it.",
            agent_id=agent_id,
        )
    return _version(row)


def _before(connection: Connection, agent_id: str, stable: Row[Any] | None) -> int:
    """Return the version that served before the stable one, or before the file's newest one.

    Raises:
        ALIAS_REFUSED: there is none.
    """
    rows = connection.execute(_VERSIONS, {"agent_": agent_id}).all()
    last = connection.execute(_LAST, {"agent_": agent_id}).first()
    now = stable.number if stable is not None else last.number if last is not None else 0
    numbers = [row.number for row in rows if row.number < now]
    if stable is not None and stable.previous is not None:
        numbers = [row.number for row in rows if row.number == stable.previous] or numbers
    if not numbers:
        raise ALIAS_REFUSED(
            f"agent '{agent_id:.80}' has no version before the one that serves; `./callboard agents versions "
            f"{agent_id}` lists those that `agents promote` takes.",
            agent_id=agent_id,
        )
    return int(numbers[0])


def _point(
    connection: Connection,
    principal: Principal,
    agent_id: str,
    alias: str,
    number: int,
    share: int,
    *,
    is_back: bool = False,
) -> None:
    """Let an alias stand for a version; going back leaves nothing to go back to but lower numbers."""
    ours = agent_aliases.c.agent_id == agent_id, agent_aliases.c.alias == alias
    row = connection.execute(select(agent_aliases).where(*ours)).first()
    before = row.previous if row is not None and row.number == number else row.number if row is not None else None
    if row is None and alias == STABLE:  # until now the file's newest one served
        last = connection.execute(_LAST, {"agent_": agent_id}).first()
        before = last.number if last is not None and last.number != number else None
    values = {"number": number, "share": share, "previous": None if is_back else before}
    values |= {"changed_by": principal.id, "changed_ms": WALL_MS}
    fresh = insert_into(connection, agent_aliases).values(agent_id=agent_id, alias=alias, **values)
    connection.execute(fresh.on_conflict_do_update(index_elements=["agent_id", "alias"], set_=values))


def _end_canary(connection: Connection, agent_id: str) -> None:
    its = agent_aliases.c.agent_id == agent_id, agent_aliases.c.alias == CANARY
    connection.execute(delete(agent_aliases).where(*its))


AliasName = Literal["stable", "canary"]
_ITS = agent_versions.c.agent_id == bindparam("agent_")
_COLUMNS = [agent_versions.c[name] for name in AgentVersion.__slots__]
_VERSIONS = select(*_COLUMNS).where(_ITS).order_by(agent_versions.c.number.desc())
_LAST = select(*_COLUMNS).where(_ITS).order_by(agent_versions.c.seen_ms.desc(), agent_versions.c.number.desc()).limit(1)
_CONTENT = select(definitions.c.content_json).where(definitions.c.digest == bindparam("digest_"))
_OF_AGENT = select(agent_aliases).where(agent_aliases.c.agent_id == bindparam("agent_"))
_ALIAS_COLUMNS = agent_aliases.c["agent_id", "alias", "number", "share", "changed_by", "changed_ms"]
_ALIASES = select(*_ALIAS_COLUMNS, agent_versions.c.digest).where(
    agent_versions.c.agent_id == agent_aliases.c.agent_id, agent_versions.c.number == agent_aliases.c.number
)
