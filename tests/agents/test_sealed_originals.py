"""What guardrails remove is kept for administrators, encrypted, where the deployment has a key."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import select, update

from agents.testing import AgentKit, Call, Turn
from agents.tools.tool import tool
from bus.identity.audit import chain
from bus.journal.errors import RunUnknown
from bus.journal.readers import unseal_originals
from bus.sealing import SealBroken, SealKeyMissing, sealer_of
from cli.main import status_of
from config.database.tables import sealed_originals
from config.identity.principal import LOCAL, Principal
from tests.agents.governance.guardrails.samples import JWT, KEYS

KEY = KEYS[0]
SEAL_KEY = b64encode(b"k" * 32).decode()


@tool(effect="pure")
def show(text: str) -> dict[str, Any]:
    """Show a text.

    Args:
        text: what to show.
    """
    return {"shown": text, "token": JWT}


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    with AgentKit(tools=[show], settings={"seal_keys": SecretStr(SEAL_KEY)}) as agent_kit:
        yield agent_kit


def originals(kit: AgentKit, run_id: str, principal: Principal = LOCAL) -> list[tuple[str, Any]]:
    database, sealer = kit.runner.journal.database, sealer_of(kit.settings)
    return [
        (original.what, original.value) for original in unseal_originals(database, sealer, principal, run_id, "a test")
    ]


def played(kit: AgentKit) -> str:
    """Play a run with a secret in its input, in arguments, in a result, in an answer and in its thinking."""
    calls = [Call(name="show", arguments={"text": "a"}), Call(name="show", arguments={"text": KEY})]
    kit.model.script(Turn(calls=calls), Turn(text=["It is ", KEY[:9], KEY[9:], "."], reasoning=[f"Hm {KEY}"]))
    handle = kit.run(f"Use {KEY}")
    handle.result(10)
    return handle.run_id


def test_each_original_is_kept_as_it_was(kit: AgentKit) -> None:
    run_id = played(kit)

    assert sorted(originals(kit, run_id), key=lambda case: case[0]) == [
        ("answer", f"It is {KEY}."),
        ("arguments show", json.dumps({"text": KEY})),
        ("input", f"Use {KEY}"),
        ("result show", {"shown": "a", "token": JWT}),
        ("thinking", f"Hm {KEY}"),
    ]
    with kit.runner.journal.database.read() as connection:
        assert KEY not in str(connection.execute(select(sealed_originals)).all())


def test_reading_them_is_recorded_with_the_reason(kit: AgentKit) -> None:
    run_id = played(kit)

    originals(kit, run_id)

    entry = chain.newest(kit.runner.journal.database, "default", limit=1)[0]
    assert (entry.action, entry.target_id, entry.principal) == ("originals.read", run_id, "local")
    assert (entry.facts["count"], entry.facts["reason"]) == (5, "a test")
    assert KEY not in entry.line()


def test_a_run_of_another_tenant_is_unknown_and_nothing_is_recorded(kit: AgentKit) -> None:
    run_id = played(kit)

    with pytest.raises(RunUnknown):
        originals(kit, run_id, Principal(tenant="other", id="eve", roles=LOCAL.roles))

    assert chain.newest(kit.runner.journal.database, "other", limit=1) == []


def test_a_row_that_was_moved_to_another_run_is_not_read_there(kit: AgentKit) -> None:
    first, second = played(kit), played(kit)
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(sealed_originals).where(sealed_originals.c.run_id == first).values(run_id=second))

    assert originals(kit, first) == []
    with pytest.raises(SealBroken):
        originals(kit, second)


def test_a_run_without_secrets_and_one_without_a_key_keep_nothing(kit: AgentKit) -> None:
    kit.model.script(Turn(text="Hello."))
    handle = kit.run("Hello")
    handle.result(10)
    assert originals(kit, handle.run_id) == []

    with AgentKit(tools=[show]) as plain:
        run_id = played(plain)
        assert originals(plain, run_id) == []


def test_what_is_blocked_is_sealed_where_its_run_is_stored(kit: AgentKit) -> None:
    kit.agent(guardrails={"output": {"secrets": "block"}})
    kit.model.script(Turn(text=["The key: ", KEY, " ok"]))
    handle = kit.run("Hello")

    assert handle.result(10).reason == "output_blocked"
    assert originals(kit, handle.run_id) == [("answer", f"The key: {KEY} ok")]


def test_they_are_removed_with_their_run(kit: AgentKit) -> None:
    run_id = played(kit)

    kit.runner.journal.readers.runs.remove(LOCAL, [run_id])

    with kit.runner.journal.database.read() as connection:
        assert connection.execute(select(sealed_originals)).all() == []


def test_the_terminal_prints_them_with_a_reason_only(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = played(kit)
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(kit.settings.state))
    monkeypatch.setenv("CALLBOARD_DATABASE_URL", str(kit.settings.database_url))
    monkeypatch.setenv("CALLBOARD_SEAL_KEYS", SEAL_KEY)

    assert status_of(["audit", "unseal", run_id]) != 0
    assert status_of(["audit", "unseal", run_id, "--reason", " "]) != 0
    assert KEY not in capsys.readouterr().out
    assert status_of(["audit", "unseal", run_id, "--reason", "a leak", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert {original["what"] for original in records} == {
        "input",
        "answer",
        "thinking",
        "arguments show",
        "result show",
    }
    assert status_of(["audit", "unseal", run_id, "--reason", "a leak"]) == 0
    assert f"Use {KEY}" in capsys.readouterr().out
    monkeypatch.setenv("CALLBOARD_SEAL_KEYS", b64encode(b"n" * 32).decode())
    assert status_of(["audit", "unseal", run_id, "--reason", "a leak"]) != 0
    assert "add that key to the list" in capsys.readouterr().err


def test_a_missing_key_is_named() -> None:
    assert "CALLBOARD_SEAL_KEYS" in str(SealKeyMissing(key="0123"))
