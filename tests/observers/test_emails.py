"""Mails about runs: one for a batch, to the declared persons, again until the server takes it, without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from email.message import EmailMessage
from typing import Any

import pytest
from pydantic import ValidationError

from bus.journal.tailing import RunReader
from bus.payloads import ApprovalPayload, EndPayload, ErrorPayload
from config.database.engine import open_database
from config.definitions.errors import DefinitionInvalid, PluginUnknown
from config.settings import Settings
from observers.base import AgentFacts, NotTaken, RunFacts
from observers.emails import MAX_ENTRIES, EmailObserver, EmailOptions
from observers.tailing.tailed import tailed_observer
from tests.observers.channels.mail_servers import PASSWORD, Outbox, text_of
from tests.tailed_log import TailedLog
from tests.template import upgrade_by_copy

AT = "2026-11-01T09:30:00.123Z"
AGENT = AgentFacts(id="atlas", name="Atlas", model="fake/model")
RUN = RunFacts(run_id="run_1", thread_id="thr_1", principal="ana", tenant="acme")


@pytest.fixture(autouse=True)
def password(monkeypatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    with Outbox() as server:
        yield server


def options_of(smtp: str = "smtp://127.0.0.1:9", **fields: Any) -> EmailOptions:
    usual = {"address": "fleet@example.org", "user": "steward", "password": "${MAIL_PASSWORD}", "to": "ops@example.org"}
    return EmailOptions.model_validate({**usual, "smtp": smtp, **fields})


def observer_of(outbox: Outbox, *, public_url: str | None = None, **fields: Any) -> EmailObserver:
    return EmailObserver(options_of(outbox.address, **fields), public_url)


def end(seq: int = 7, status: str = "failed", **fields: Any) -> EndPayload:
    return EndPayload(**{"seq": seq, "at": AT, "status": status, **fields})


def question(seq: int = 3, **fields: Any) -> ApprovalPayload:
    return ApprovalPayload(
        seq=seq, at=AT, **{"approval_id": "apr_1", "name": "pay", "arguments": {"euros": 5}, **fields}
    )


def sent(outbox: Outbox) -> tuple[EmailMessage, str]:
    [mail] = outbox.mails
    return mail, text_of(mail)


# --- what is sent


@pytest.mark.parity
def test_a_batch_is_one_mail_that_names_each_run_and_where_to_look(outbox: Outbox):
    observer = observer_of(outbox, public_url="https://board.example.org/", to=["ops@example.org", "ben@example.org"])

    observer.on_response(AGENT, end(reason="model_timeout"), RUN)
    observer.on_response(AGENT, question(expires_at="2026-11-01T10:00:00.000Z"), replace(RUN, run_id="run_2"))
    observer.flush()
    observer.flush()

    mail, text = sent(outbox)
    assert outbox.recipients == [["ops@example.org", "ben@example.org"]]
    assert (mail["Subject"], mail["From"]) == (
        "[Callboard] atlas failed: model_timeout, and 1 more",
        "fleet@example.org",
    )
    assert (mail["Auto-Submitted"], mail["X-Auto-Response-Suppress"]) == ("auto-generated", "All")
    assert text == (
        "atlas failed: model_timeout\n"
        "  run: run_1\n  tenant: acme\n  principal: ana\n  at: 2026-11-01T09:30:00.123Z\n"
        "  https://board.example.org/#/thread/thr_1/of/ana/run/run_1\n"
        "  ./callboard logs run_1\n\n"
        "atlas asks about pay\n"
        "  run: run_2\n  tenant: acme\n  principal: ana\n  at: 2026-11-01T09:30:00.123Z\n"
        "  until: 2026-11-01T10:00:00.000Z\n"
        "  https://board.example.org/#/thread/thr_1/of/ana/run/run_2\n"
        "  ./callboard approve run_2"
    )


@pytest.mark.parity
def test_successes_stopped_runs_child_runs_and_answers_are_no_mail(outbox: Outbox):
    observer = observer_of(outbox)

    observer.on_response(AGENT, end(status="succeeded"), RUN)
    observer.on_response(AGENT, end(status="cancelled"), RUN)
    observer.on_response(AGENT, end(), replace(RUN, parent_id="run_0"))
    observer.on_response(AGENT, question(decision="approve", by="ben"), RUN)
    observer.on_response(AGENT, question(approved_by=["ben"], approvers=2), RUN)
    observer.flush()

    assert outbox.mails == []


@pytest.mark.parity
def test_all_ends_and_content_are_told_where_the_declaration_says_so_without_secrets(outbox: Outbox):
    observer = observer_of(outbox, ends="all", content=True)
    key = "sk-proj-" + "a" * 40

    observer.on_response(AGENT, end(status="succeeded", output={"text": f"the key is {key}"}), RUN)
    observer.on_response(AGENT, question(arguments={"euros": 5, "password": "hunter2!"}), RUN)
    observer.flush()

    _, text = sent(outbox)
    assert '  output:\n    {\n      "text": "the key is [redacted]"\n    }\n' in text
    assert '  arguments:\n    {\n      "euros": 5,\n      "password": "[redacted]"\n    }\n' in text
    assert key not in text
    assert "hunter2" not in text


@pytest.mark.parity
def test_a_failure_has_its_last_error_and_an_output_its_lines(outbox: Outbox, each_database_url: str):
    observer = observer_of(outbox, ends="all", content=True)
    with closing(open_database(each_database_url)) as database:
        upgrade_by_copy(database)
        log = TailedLog(database)
        run_id = log.run()
        log.add(
            run_id, *(ErrorPayload(seq=seq, at=AT, code="model_failed", message=f"Attempt {seq}") for seq in (1, 2))
        )
        observer.runs = RunReader(database)
        observer.on_response(AGENT, end(reason="model_failed"), replace(RUN, run_id=run_id))
    observer.on_response(AGENT, end(status="succeeded", output="Dear Ana,\n\nall is well."), RUN)
    observer.flush()

    _, text = sent(outbox)
    assert "  error:\n    Attempt 2\n" in text
    assert "  output:\n    Dear Ana,\n    \n    all is well.\n" in text


@pytest.mark.parity
def test_a_metadata_service_is_no_mail_server(outbox: Outbox):
    observer = EmailObserver(options_of("smtps://169.254.169.254"), None)
    observer.on_response(AGENT, end(), RUN)

    with pytest.raises(NotTaken, match="metadata service"):
        observer.flush()


@pytest.mark.parity
def test_a_thousand_failures_are_one_mail_of_bounded_length(outbox: Outbox):
    observer = observer_of(outbox)

    for number in range(1000):
        observer.on_response(AGENT, end(reason="model_timeout"), replace(RUN, run_id=f"run_{number}"))
    observer.flush()

    mail, text = sent(outbox)
    assert mail["Subject"] == "[Callboard] atlas failed: model_timeout, and 999 more"
    assert text.count("./callboard logs") == MAX_ENTRIES
    assert text.endswith(f"{1000 - MAX_ENTRIES} more; `./callboard runs` and `./callboard approve` list them.")


@pytest.mark.parity
def test_names_add_no_header_and_reorder_no_text(outbox: Outbox):
    observer = observer_of(outbox)

    observer.on_response(AGENT, question(name="pay\r\nBcc: eve@example.org\n\u202e" + "x" * 500), RUN)
    observer.flush()

    mail, text = sent(outbox)
    assert mail["Bcc"] is None
    assert "\u202e" not in text
    assert outbox.recipients == [["ops@example.org"]]
    assert text.startswith("atlas asks about pay Bcc: eve@example.org xxx")
    assert len(mail["Subject"]) < 200


# --- when the server does not take it


@pytest.mark.parity
def test_a_mail_that_is_not_taken_is_sent_again_under_the_same_id(outbox: Outbox):
    observer = observer_of(outbox)
    outbox.answers = ["451 try again later"]

    observer.on_response(AGENT, end(), RUN)
    with pytest.raises(NotTaken, match="try again later"):
        observer.flush()
    for _ in range(2):
        observer.on_response(AGENT, end(), RUN)
        observer.flush()

    ids = [mail["Message-ID"] for mail in outbox.mails]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert text_of(outbox.mails[0]).count("./callboard logs") == 1  # what failed is not noted twice


@pytest.mark.parity
def test_a_recipient_that_the_server_refuses_keeps_no_mail_from_the_others(outbox: Outbox, caplog):
    outbox.refused = {"gone@example.org"}
    observer = observer_of(outbox, to=["gone@example.org", "ops@example.org"])

    observer.on_response(AGENT, end(), RUN)
    observer.flush()

    assert outbox.recipients == [["ops@example.org"]]
    assert "the mail server refuses gone@example.org: no such mailbox" in caplog.text


@pytest.mark.parity
def test_a_wrong_password_is_a_delivery_that_is_tried_again(outbox: Outbox, monkeypatch):
    monkeypatch.setenv("MAIL_PASSWORD", "another-password")
    observer = observer_of(outbox)
    observer.on_response(AGENT, end(), RUN)

    with pytest.raises(NotTaken, match=r"(?i)authentication"):
        observer.flush()
    assert outbox.mails == []


def test_a_missing_password_sends_nothing_and_says_which(monkeypatch):
    monkeypatch.delenv("MAIL_PASSWORD")
    observer = EmailObserver(options_of(), None)
    observer.on_response(AGENT, end(), RUN)

    with pytest.raises(NotTaken, match="env:MAIL_PASSWORD is missing or empty"):
        observer.flush()
    assert "env:MAIL_PASSWORD" in str(options_of().problem())
    assert options_of(password=None).problem() is None


# --- how it is declared


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"to": []}, "at least 1"),
        ({"to": "ops"}, "has to be an e-mail address"),
        ({"to": "ops@example.org\nBcc: eve@example.org"}, "has to be an e-mail address"),
        ({"smtp": "mail.example.org"}, "pattern"),
        ({"smtp": "smtps://user:pw@mail.example.org"}, "pattern"),
        ({"password": "hunter2!"}, "never the secret itself"),
        ({"password": "${OPENAI_API_KEY}"}, "provider of models"),
        ({"ends": "none"}, "'failures' or 'all'"),
        ({"content": "yes"}, "boolean"),
        ({"cc": "ben@example.org"}, "cc"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(fields: dict[str, Any], problem: str):
    with pytest.raises(ValidationError, match=problem) as raised:
        options_of(**fields)
    assert "hunter2" not in "".join(str(error["msg"]) for error in raised.value.errors())


def test_a_declaration_names_the_tenants_and_no_agent_names_it(usual_settings: Settings, tmp_path):
    file = tmp_path / "observers.yaml"
    file.write_text(
        "ops:\n  class: email\n  options:\n"
        "    {address: fleet@example.org, smtp: 'smtps://mail.example.org', to: ops@example.org}\n"
    )
    settings = usual_settings.model_copy(update={"observers_file": str(file)})

    with pytest.raises(DefinitionInvalid, match="tenants"):
        tailed_observer("ops", settings)
    with pytest.raises(PluginUnknown, match="mails are sent from the log"):
        EmailObserver.from_settings(settings)

    file.write_text(file.read_text().replace("class: email\n", "class: email\n  tenants: [default]\n"))
    assert tailed_observer("ops", settings).kind is EmailObserver
