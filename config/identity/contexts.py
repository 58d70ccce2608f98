"""The contexts of a run: for which application and environment it works, and who asked for it with what.

``GoldenContext`` and ``SecurityContext`` are what a call is made with. Neither is carried by a message: the run's row
has what its entry point declared, in ``context_json``, and the principal, the credential and the trace id, from which
an owner makes both when it picks the run up (docs/decisions). Neither has a secret: ``token_ref`` only names a
credential.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NotRequired

import orjson
from typing_extensions import TypedDict

from config.effects import Classification
from config.identity.principal import Role

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""What an application and an environment may be called."""
NAME_FORM = "has to be a name: 1 to 64 letters, digits, '_', '-' and '.', a letter or digit first"
MAX_STORED = 2048
"""Characters of the longest context that is read from a row."""


class SecurityContextWire(TypedDict):
    """Who asked for a run, and with what, by the names of the capability design."""

    initiatorId: str
    """Whom the run works for; a name for records, which gives no right."""
    roles: list[str]
    """The roles that the run has now."""
    tokenRef: str
    """Which credential it was: its kind, and its id behind a colon; never the credential itself."""
    traceId: str
    """32 hexadecimal digits, by which log records and answers are found."""


class GoldenContextWire(TypedDict):
    """For which application, environment and initiator a run works."""

    app_id: str
    """The application, as the deployment calls it."""
    environment: str
    """The environment, such as ``production``."""
    initiator_id: str
    """Whom the run works for; a name for records, which gives no right."""
    trace_id: str
    """32 hexadecimal digits, by which log records and answers are found."""
    cost_center: NotRequired[str]
    """What it is charged to."""
    data_classification: NotRequired[Classification]
    """How the data that it is about is classified."""


ContextsWire = TypedDict(
    "ContextsWire", {"golden.context": GoldenContextWire, "golden.securityContext": SecurityContextWire}, total=False
)
"""Both contexts as a program gets them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenContext:
    """For which application, environment and initiator a run works, and how its data is classified."""

    app_id: str
    environment: str
    initiator_id: str
    """Whom it works for; a name for records, which gives no right."""
    trace_id: str
    cost_center: str | None = None
    data_classification: Classification | None = None
    """Of what the run is about, as its deployment or tenant declares it; a tool has a classification of its own."""

    def as_json(self) -> GoldenContextWire:
        """Return the fields that say something."""
        named: GoldenContextWire = {
            "app_id": self.app_id,
            "environment": self.environment,
            "initiator_id": self.initiator_id,
            "trace_id": self.trace_id,
        }
        if self.cost_center is not None:
            named["cost_center"] = self.cost_center
        if self.data_classification is not None:
            named["data_classification"] = self.data_classification
        return named


@dataclass(frozen=True, kw_only=True, slots=True)
class SecurityContext:
    """Who asked for a run, with which credential, and what its calls may do."""

    initiator_id: str
    roles: frozenset[Role]
    """As the run's principal has them now, with no more than at the start; these decide about calls."""
    token_ref: str
    """Which credential it was: its kind, and behind a colon its id where it has one. Never the credential itself."""
    trace_id: str

    def as_json(self, *, with_token: bool = False) -> dict[str, Any]:
        """Return the fields; ``token_ref`` only where it may be seen."""
        fields = {"initiator_id": self.initiator_id, "roles": sorted(self.roles), "trace_id": self.trace_id}
        return fields | ({"token_ref": self.token_ref} if with_token else {})

    def as_wire(self) -> SecurityContextWire:
        """Return the fields by the names of the capability design."""
        return {
            "initiatorId": self.initiator_id,
            "roles": sorted(map(str, self.roles)),
            "tokenRef": self.token_ref,
            "traceId": self.trace_id,
        }


def memo(golden: GoldenContext | None, security: SecurityContext | None) -> ContextsWire:
    """Return the contexts as a program gets them; one that is not set is absent."""
    wire: ContextsWire = {}
    if golden is not None:
        wire["golden.context"] = golden.as_json()
    if security is not None:
        wire["golden.securityContext"] = security.as_wire()
    return wire


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredContext:
    """What an entry point (HTTP, MCP, the terminal, a Python program) declares of the runs that it starts.

    It is the part of both contexts that no other column of a run has.
    """

    app_id: str
    environment: str
    cost_center: str | None = None
    data_classification: Classification | None = None
    initiator_id: str | None = None
    """None: the run's principal."""
    token_ref: str | None = None
    """None: the credential of the run."""
    LOGGED: ClassVar[tuple[str, ...]] = ("app_id", "environment", "cost_center", "data_classification", "initiator_id")
    """What a log record has of it."""

    def to_json(self) -> str:
        """Return it as the run's row keeps it."""
        return orjson.dumps(_present(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> DeclaredContext | None:
        """Return what ``to_json`` wrote; None where the text is anything else, or has a value that is not known."""
        try:
            stored = orjson.loads(text) if len(text) <= MAX_STORED else None
        except ValueError:
            return None
        if not isinstance(stored, dict) or not all(isinstance(value, str) for value in stored.values()):
            return None
        try:
            if "data_classification" in stored:
                stored["data_classification"] = Classification(stored["data_classification"])
            context = cls(**{name: stored[name] for name in cls.__slots__ if name in stored})
        except (TypeError, ValueError):
            return None
        return context if all(re.fullmatch(NAME, name) for name in (context.app_id, context.environment)) else None

    def golden(self, principal: str, trace_id: str) -> GoldenContext:
        """Return the golden context of a run of this principal."""
        return GoldenContext(
            app_id=self.app_id,
            environment=self.environment,
            initiator_id=self.initiator_id or principal,
            trace_id=trace_id,
            cost_center=self.cost_center,
            data_classification=self.data_classification,
        )

    def logged(self) -> Iterator[tuple[str, str]]:
        """Yield the fields of a log record."""
        for name in self.LOGGED:
            if (value := getattr(self, name)) is not None:
                yield name, str(value)


def reference_of(credential: str, credential_id: str | None) -> str:
    """Return what names a credential: its kind, and its id where it has one."""
    return f"{credential}:{credential_id}" if credential_id else credential


def trace_id_of_run(run_id: str) -> str:
    """Return the trace id of a run that an earlier release started without one; the same for all its owners."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:32]


def narrowed(roles: frozenset[Role], selection: Collection[Role] | None) -> frozenset[Role]:
    """Return the roles that are wanted and are there; None wants all."""
    return roles if selection is None else roles & frozenset(selection)


# --- what the present request or run works for


@dataclass(frozen=True, slots=True)
class _WorkedFor:
    tenant: str
    declared: DeclaredContext
    of_children: DeclaredContext


_WORKING_FOR: ContextVar[_WorkedFor | None] = ContextVar("callboard_working_for", default=None)


def declared_for(tenant: str) -> DeclaredContext | None:
    """Return what the present run or request declares of the runs of this tenant that it starts, if anything."""
    context = _WORKING_FOR.get()
    return context.of_children if context is not None and context.tenant == tenant else None


def logged_fields() -> Iterator[tuple[str, str]]:
    """Yield what log records have of the present run's context."""
    context = _WORKING_FOR.get()
    if context is not None:
        yield from context.declared.logged()


@contextmanager
def working_for(
    tenant: str, declared: DeclaredContext | None, security: SecurityContext | None = None
) -> Iterator[None]:
    """Let the body work for this context: runs that it starts in the tenant inherit it, and log records name it.

    ``security``: that of a run, whose initiator and credential its children have, too.
    """
    work = None
    if declared is not None:
        children = declared
        if security is not None:
            children = replace(declared, initiator_id=security.initiator_id, token_ref=security.token_ref or None)
        work = _WorkedFor(tenant, declared, children)
    before = _WORKING_FOR.set(work)
    try:
        yield
    finally:
        _WORKING_FOR.reset(before)


def _present(context: Any) -> dict[str, str]:
    return {name: str(value) for name in context.__slots__ if (value := getattr(context, name)) is not None}
