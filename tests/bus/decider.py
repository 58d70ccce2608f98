"""Processes that answer a question and then try to begin the call, all at the same moment.

``python -m tests.bus.decider``: each line of its input has the database's URL and what each of the processes does, as
JSON; for each line it prints what came of each.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import Any

import orjson

from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import decide
from bus.journal.idempotency import IdempotencyKey
from bus.journal.ownership.leases import Claim, FirstCommit, claim_on
from config.database.engine import Database, open_database
from config.errors import CallboardError
from config.identity.principal import Principal, Role
from config.ids import canonical_digest


def answer(database: Database, request: dict[str, Any]) -> str:
    """Answer, and return the decision that was taken or the code of the refusal."""
    principal = Principal(id=request["who"], roles=frozenset(map(Role, request["roles"])))
    key = request.get("key")
    idempotency_key = IdempotencyKey(key=key, method="POST", path="/x", body_digest="a") if key else None
    decision = Decision(**request["answer"])
    try:
        ids = request["run_id"], request["approval_id"]
        return decide(database, principal, *ids, decision, by=principal.id, idempotency=idempotency_key).decision
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
        answer = step.answer
        if answer.decision is None or answer.decision.decision != "approve":
            return None
        digest = canonical_digest(dict(answer.edited)) if answer.edited is not None else step.arguments_digest
        used = [step.approval_id] if step.approval_id else []
        claim.write(FirstCommit(restarted=[step.id], edited={step.id: digest}, answers_used=used))
        return digest if answer.digest == digest else "another call"


def compete(url: str, request: dict[str, Any], ready: int, go: int, output_fd: int) -> None:
    """Answer and begin once ``go`` is closed, and write what came of both."""
    with closing(open_database(url)) as database:
        with database.read() as connection:
            connection.exec_driver_sql("SELECT 1")
        os.write(ready, b"r")
        os.read(go, 1)
        decision = answer(database, request)
        call = begin(database, request["run_id"], f"owner-{os.getpid()}")
    os.write(output_fd, orjson.dumps([decision, call]))


def race(url: str, tasks: list[dict[str, Any]]) -> list[Any]:
    """Fork a process for each task and let all begin at once; return what came of each."""
    ready, is_ready = os.pipe()
    go, held = os.pipe()
    answers, racers = [], []
    for task in tasks:
        reply, output_fd = os.pipe()
        racers.append(os.fork())
        if racers[-1] == 0:  # a process of its own, whose imports are done
            os.close(held)
            compete(url, task, is_ready, go, output_fd)
            os._exit(0)
        os.close(output_fd)
        answers.append(reply)
    for _ in tasks:
        os.read(ready, 1)
    os.close(held)
    came = [orjson.loads(os.read(reply, 4096)) for reply in answers]
    for racer in racers:
        os.waitpid(racer, 0)
    for pipe in (ready, is_ready, go, *answers):
        os.close(pipe)
    return came


def main() -> None:
    """Hold a race for each line."""
    for line in sys.stdin:
        print(orjson.dumps(race(*orjson.loads(line))).decode(), flush=True)


if __name__ == "__main__":
    main()
