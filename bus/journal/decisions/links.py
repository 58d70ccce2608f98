"""Links to one question for one person: signed, valid once and until a time, for an e-mail or a chat message.

A link opens the question for the person it was made for, who has to be signed in and to have the right to answer: it
grants none. It is bound to the question, its arguments, the version of its tool and that person, and a decision made
by it uses it up. Reading does not, because scanners of mail follow links.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from bus.identity.access import require
from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.journal.approvals import DEFAULT_LINK_S, UNANSWERED
from bus.journal.errors import LINK_NOT_YOURS, LINK_OVER, LINK_UNKNOWN, ApprovalDecided, ApprovalOver, ApprovalUnknown
from bus.journal.records.questions import QUESTION, question_data
from bus.journal.unowned.transitions import lock_allowed_run
from config.clock import stamp
from config.database.engine import WALL_MS, Database, wall_ms
from config.database.shared_secret import shared_secret
from config.database.tables import approval_links, approvals, runs
from config.identity.principal import Principal, Verb
from config.ids import new_id

SECRET_NAME = "approval_links"
KEPT_MS = 30 * 86_400_000
"""Milliseconds that a link's row outlives it, so that it can be said that it is over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedLink:
    """A link that its person has opened, and by which the question is about to be answered."""

    id: str
    run_id: str
    approval_id: str
    digest: str | None
    tool_digest: str | None

    def use(self, connection: Connection, question: Row[Any]) -> None:
        """Use the link up, in the transaction that records the answer.

        Raises:
            LINK_OVER: it was used before, it expired, or the question is not the one that it was made for.
        """
        if (question.digest, question.tool_digest) != (self.digest, self.tool_digest):
            raise LINK_OVER(problem="the question has changed since it was made")
        still = approval_links.c.used_ms.is_(None) & (approval_links.c.expires_ms > WALL_MS)
        using = update(approval_links).where(approval_links.c.id == self.id, still).values(used_ms=WALL_MS)
        if connection.execute(using).rowcount == 0:
            raise LINK_OVER(problem="it was used before, or has expired")


class ApprovalLinks:
    """Makes links, opens them, and says whether they are valid."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._secret = b""

    def make(
        self, principal: Principal, run_id: str, approval_id: str, *, for_whom: str, seconds: int = DEFAULT_LINK_S
    ) -> dict[str, Any]:
        """Return the token of a new link to an open question, for whom it is, and when it expires.

        Raises:
            RunUnknown, FORBIDDEN: the principal does not see the run, or may not answer for it.
            ApprovalUnknown, ApprovalDecided, ApprovalOver: the question is not open.
        """
        secret = self._open()
        with self._database.write() as connection:
            run = lock_allowed_run(connection, principal, Verb.DECIDE, run_id)
            query = select(approvals).where(approvals.c.id == approval_id, approvals.c.run_id == run_id)
            question = connection.execute(query).first()
            if question is None:
                raise ApprovalUnknown(approval_id=approval_id[:80])
            if question.decision is not None:
                raise ApprovalDecided(approval_id=question.id, decision=question.decision, by=question.decided_by)
            now = wall_ms(connection)
            if run.status != "waiting" or question.expires_ms <= now:
                raise ApprovalOver("the question is not open any more; nothing can be decided.")
            connection.execute(delete(approval_links).where(approval_links.c.expires_ms < now - KEPT_MS))
            row = {"id": new_id("lnk"), "tenant": run.tenant, "run_id": run_id, "approval_id": approval_id}
            row |= {"principal": for_whom, "digest": question.digest, "tool_digest": question.tool_digest}
            row |= {"expires_ms": min(now + seconds * 1000, question.expires_ms), "created_by": principal.id}
            connection.execute(insert(approval_links).values(**row, created_ms=now))
            facts: dict[str, Any] = {"run": run_id, "for": for_whom, "expires": stamp(row["expires_ms"])}
            record(connection, principal, Action.APPROVAL_LINKED, "approval", approval_id, **facts)
        token = f"{row['id']}.{_signature(secret, row)}"
        return {"token": token, "principal": for_whom, "expires_at": stamp(row["expires_ms"])}

    def open(self, principal: Principal, token: str) -> tuple[UsedLink, dict[str, Any]]:
        """Return a valid link of this person and its question, as the API shows it, with its run; it is not used up.

        Raises:
            LINK_UNKNOWN: the deployment made no such link.
            LINK_NOT_YOURS: it was made for another person.
            LINK_OVER: it was used, it expired, or its question is not open any more.
            FORBIDDEN: its person may not answer the question.
        """
        secret = self._open()
        link_id, _, signature = token.partition(".")
        with self._database.read() as connection:
            link = connection.execute(select(approval_links).where(approval_links.c.id == link_id)).first()
            if link is None or not _is_same(_signature(secret, link._mapping), signature):
                raise LINK_UNKNOWN()
            if (link.tenant, link.principal) != (principal.tenant, principal.id):
                raise LINK_NOT_YOURS()
            if link.used_ms is not None or link.expires_ms <= wall_ms(connection):
                raise LINK_OVER(problem="it was used before" if link.used_ms is not None else "it has expired")
            run = connection.execute(select(runs).where(runs.c.id == link.run_id)).first()
            query = select(*QUESTION).where(approvals.c.id == link.approval_id, UNANSWERED)
            question = connection.execute(query).first()
            if run is None or question is None or run.status != "waiting":
                raise LINK_OVER(problem="its question is answered, or its run has ended")
            require(principal, Verb.DECIDE, run, "this run")
            names = {"run_id": run.id, "thread_id": run.thread_id, "agent": run.agent_id, "principal": run.principal}
            used = UsedLink(**{name: getattr(link, name) for name in UsedLink.__slots__})
            return used, question_data(question) | names

    def _open(self) -> bytes:
        """Return the deployment's secret for links; not within a transaction, since it may have to be made."""
        if not self._secret:
            self._secret = bytes.fromhex(shared_secret(self._database, SECRET_NAME))
        return self._secret


def _is_same(expected: str, candidate: str) -> bool:
    return hmac.compare_digest(expected.encode(), candidate.encode("utf-8", "replace"))


def _signature(secret: bytes, row: Any) -> str:
    """Return the MAC of all that a link is bound to."""
    names = ("id", "tenant", "run_id", "approval_id", "principal", "digest", "tool_digest", "expires_ms")
    bound = "\n".join(str(row[name]) for name in names)
    return hmac.digest(secret, bound.encode(), "sha256").hex()
