"""A process that answers a question and then tries to begin the call, at the moment that its test says.

``python -m tests.bus.decider URL``: the first line of its input has what it does, the second one lets it go; it prints
what came of both.
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import orjson

from bus.journal.approvals import Decision
from bus.journal.decisions import decide
from bus.journal.idempotency import IdempotencyKey, canonical_digest
from bus.journal.ownership.leases import Claim, FirstCommit, claim_on
from config.database.engine import Database, open_database
from config.errors import CallboardError
from config.identity.principal import Principal, Role


def answer(database: Database, wanted: dict[str, Any]) -> str:
    """Answer, and return the decision that was taken or the code of the refusal."""
    principal = Principal(id=wanted["who"], roles=frozenset(map(Role, wanted["roles"])))
    key = wanted.get("key")
    given = IdempotencyKey(key=key, method="POST", path="/x", body_digest="a") if key else None
    said = Decision(**wanted["answer"])
    try:
        ids = wanted["run_id"], wanted["approval_id"]
        return decide(database, principal, *ids, said, by=principal.id, idempotency=given).decision
    except CallboardError as error:
        return error.code


def begin(database: Database, run_id: str, owner: str) -> str | None:
    """Claim the run and use its approval, as an owner does; return the digest of the arguments, None without either."""
    with database.write() as connection:
        lease = claim_on(connection, database, run_id, owner, 60.0)
        if lease is None:
            return None
        claim = Claim(connection, lease)
        (step,) = claim.progress().calls
        said = step.answered
        if said.decision is None or said.decision.decision != "approve":
            return None
        digest = canonical_digest(dict(said.edited)) if said.edited is not None else step.arguments_digest
        used = [step.approval_id] if step.approval_id else []
        claim.write(FirstCommit(restarted=[step.id], edited={step.id: digest}, answers_used=used))
        return digest if said.digest == digest else "another call"


def main() -> None:
    wanted = orjson.loads(sys.stdin.readline())
    with closing(open_database(sys.argv[1])) as database:
        with database.read() as connection:
            connection.exec_driver_sql("SELECT 1")
        print("ready", flush=True)
        sys.stdin.readline()
        said = answer(database, wanted)
        print(orjson.dumps([said, begin(database, wanted["run_id"], f"own_{wanted['who']}")]).decode(), flush=True)


if __name__ == "__main__":
    main()
