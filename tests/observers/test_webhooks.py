"""Webhooks that are sent: signed, to their tenant's endpoint alone, again until it takes them, and nowhere private."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from bus.journal.tailing import Member, ObserverCursors, ObserverState, dead_letters, feed_again, observer_states
from bus.journal.tailing import failures as failing
from bus.payloads import ApprovalPayload, EndPayload
from config.clock import epoch_ms, stamp
from config.database.engine import Database, open_database
from config.database.tables import events
from config.definitions.errors import DefinitionInvalid, PluginUnknown
from config.egress.fetch import Fetcher
from config.settings import Settings
from observers import webhooks as sending
from observers.base import AgentFacts, NotTaken, RunFacts
from observers.discovery import observers_for
from observers.tailing import tailer as tailing
from observers.tailing.tailed import tailed_observer, tailed_observers
from observers.tailing.tailer import Tailer
from observers.webhooks import WebhookObserver, WebhookOptions
from tests.tailed_log import TailedLog, end
from tests.template import upgrade_by_copy
from tests.webhook_receiver import SECRET, TAKEN, Receiver, answering, dribbling

OTHER_SECRET = "whsec_b3RoZXIgc2VjcmV0IG9mIHRoZSBzYW1lIHNob3A="
AGENT = AgentFacts(id="atlas", name="Atlas", model="fake/model")
RUN = RunFacts(run_id="run_1", thread_id="thr_1", principal="ana", tenant="acme")
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def secrets(monkeypatch) -> None:
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    monkeypatch.setenv("OLD_SECRET", OTHER_SECRET)


def approval(seq: int, **fields: Any) -> ApprovalPayload:
    question = {"approval_id": "apr_1", "name": "pay", "arguments": {"euros": 5}, "kind": "call"}
    return ApprovalPayload(seq=seq, at=stamp(), **{**question, **fields})


class Endpoints:
    """A deployment whose observers are declared as a test writes it."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings, self.database, self.log = settings, database, TailedLog(database)
        self._path = Path(settings.observers_file)

    def declare(self, text: str) -> None:
        self._path.write_text(text)

    def declare_shop(self, receiver: Receiver, name: str = "shop", more: str = "") -> str:
        return (
            f"{name}:\n  class: webhooks\n  start: beginning\n  tenants: [default]\n{more}"
            f"  options: {{url: '{receiver.url()}', secret: '${{SHOP_SECRET}}', hosts: [127.0.0.0/8]}}\n"
        )

    def members(self) -> list[Tailer]:
        """Return a thread's work for each endpoint that is declared."""
        cursors = ObserverCursors(self.database)
        members = []
        for tailed in tailed_observers("webhooks", self.settings):
            parts = tailed.class_path, tailed.delivery, tailed.selection.as_json(), tailed.start
            cursors.register(tailed.name, *parts)
            member = Member(id=f"own_{tailed.name}", host="here", pid=1, version="1")
            members.append(Tailer(tailed, self.settings, self.database, member))
        return members

    def state(self, name: str = "shop") -> ObserverState:
        with self.database.read() as connection:
            return next(state for state in observer_states(connection) if state.name == name)

    def letters(self, name: str = "shop") -> list[dict[str, Any]]:
        with self.database.read() as connection:
            return dead_letters(connection, name)

    def feed_again(self) -> None:
        with self.database.write() as connection:
            feed_again(connection, "shop", None)


@pytest.fixture
def endpoints(each_database_url: str, usual_settings: Settings, tmp_path: Path, monkeypatch) -> Iterator[Endpoints]:
    monkeypatch.setattr(tailing, "CLAIM_S", 0.0)
    chosen = {"state_dir": tmp_path, "observers_file": str(tmp_path / "observers.yaml")}
    with closing(open_database(each_database_url)) as database:
        upgrade_by_copy(database)
        yield Endpoints(usual_settings.model_copy(update=chosen), database)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as opened:
        yield opened


def drain(members: Sequence[Tailer]) -> None:
    for _ in range(500):
        if not any([member.step() for member in members]):
            return
    raise AssertionError("the endpoints never came to an end")


def observer_of(receiver: Receiver, *, public_url: str | None = None, total_s: float = 5.0, **options: Any) -> Any:
    """Return an observer that sends to the receiver."""
    fields = {"url": receiver.url(), "hosts": ["127.0.0.0/8"], **options}
    limits = replace(sending.LIMITS, total_s=total_s)
    return WebhookObserver(options_of(**fields), public_url, Fetcher(limits=limits))


def options_of(**fields: Any) -> WebhookOptions:
    return WebhookOptions.model_validate({"secret": "${SHOP_SECRET}", **fields})


# --- what is sent


@pytest.mark.parity
def test_the_end_of_a_run_is_sent_without_what_the_model_wrote(receiver: Receiver):
    observer = observer_of(receiver, public_url="https://board.example.org/")

    observer.on_response(AGENT, end_with("Dear Ana"), RUN)

    [delivery] = receiver.taken
    assert delivery.id == "msg_1_7"
    assert (delivery.event["type"], delivery.event["timestamp"]) == ("run.ended", "2026-11-01T09:30:00.123Z")
    assert delivery.event["data"] == {
        "run_id": "run_1",
        "thread_id": "thr_1",
        "kind": "agent",
        "agent": "atlas",
        "tenant": "acme",
        "principal": "ana",
        "url": "https://board.example.org/#/thread/thr_1/of/ana/run/run_1",
        "status": "succeeded",
        "usage": {"input_tokens": 5},
        "cost_usd": 0.25,
        "steps": 1,
    }
    assert delivery.headers["content-type"] == "application/json"


@pytest.mark.parity
def test_the_end_of_a_child_run_is_not_sent(receiver: Receiver):
    observer_of(receiver).on_response(AGENT, end_with("Dear Ana"), replace(RUN, parent_id="run_0"))

    assert receiver.taken == []


def end_with(output: Any) -> EndPayload:
    fields: dict[str, Any] = {"status": "succeeded", "usage": {"input_tokens": 5}, "cost_usd": 0.25, "steps": 1}
    return EndPayload(seq=7, at="2026-11-01T09:30:00.123Z", output=output, **fields)


@pytest.mark.parity
def test_content_is_sent_where_the_declaration_says_so_without_secrets_and_not_without_end(receiver: Receiver):
    observer = observer_of(receiver, content=True)
    key = "sk-proj-" + "a" * 40

    observer.on_response(AGENT, end_with({"text": f"the key is {key}", "password": "hunter2!"}), RUN)
    observer.on_response(AGENT, approval(2), RUN)
    observer.on_response(AGENT, end_with("x" * 300_000), RUN)

    ended, question, long = (delivery.event["data"] for delivery in receiver.taken)
    assert ended["output"] == {"text": "the key is [redacted]", "password": "[redacted]"}
    assert (question["tool"], question["arguments"], question["asks_for"]) == ("pay", {"euros": 5}, "call")
    assert (long.get("output"), long["left_out"]) == (None, ["output"])


@pytest.mark.parity
def test_a_question_is_sent_and_answers_to_it_are_not(receiver: Receiver):
    observer = observer_of(receiver)

    observer.on_response(AGENT, approval(2, expires_at="2026-11-01T10:00:00.000Z"), RUN)
    observer.on_response(AGENT, approval(3, approved_by=["ben"], approvers=2), RUN)
    observer.on_response(AGENT, approval(4, decision="approve", by="ben"), RUN)

    [delivery] = receiver.taken
    assert delivery.event["type"] == "approval.asked"
    assert delivery.event["data"]["expires_at"] == "2026-11-01T10:00:00.000Z"
    assert "arguments" not in delivery.event["data"]


@pytest.mark.parity
def test_each_of_two_secrets_signs_so_that_one_can_be_replaced():
    with Receiver(SECRET, OTHER_SECRET) as receiver:  # verifies with both
        observer_of(receiver, secret=["${SHOP_SECRET}", "env:OLD_SECRET"]).on_response(AGENT, end(1), RUN)

        assert receiver.taken[0].headers["webhook-signature"].count("v1,") == 2


def test_a_missing_secret_sends_nothing_and_says_which(monkeypatch):
    monkeypatch.delenv("SHOP_SECRET")
    options = options_of(url="https://shop.example.org/")

    with pytest.raises(NotTaken, match="env:SHOP_SECRET is missing or empty"):
        WebhookObserver(options, None).on_response(AGENT, end(1), RUN)
    assert "env:SHOP_SECRET" in str(options.problem())


# --- where it is sent


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("https://127.0.0.1/", []),
        ("https://169.254.169.254/latest/meta-data", []),
        ("https://[::1]/", []),
        ("https://[::ffff:10.0.0.7]/", []),
        ("https://hooks.example.org/", ["10.0.0.7"]),
        ("https://hooks.example.org/", ["93.184.216.34", "192.168.0.1"]),
        ("https://hooks.example.org/", ["fe80::1"]),
        ("https://hooks.example.org:6379/", ["93.184.216.34"]),
    ],
)
def test_private_addresses_and_those_of_metadata_services_are_not_asked(url: str, addresses: list[str]):
    async def resolve(_host: str, _port: int) -> list[str]:
        return addresses

    observer = WebhookObserver(options_of(url=url), None, Fetcher(resolver=resolve, limits=sending.LIMITS))

    with pytest.raises(NotTaken, match=r"is not a public host|is not allowed"):
        observer.on_response(AGENT, end(1), RUN)


@pytest.mark.parity
def test_a_name_that_becomes_private_between_two_look_ups_leads_nowhere_else(receiver: Receiver):
    answers = [["127.0.0.1"], ["10.255.255.1"]]

    async def resolve(_host: str, _port: int) -> list[str]:
        return answers.pop(0)

    options = options_of(url=receiver.url("hooks.test"), hosts=["hooks.test", "127.0.0.0/8"])
    observer = WebhookObserver(options, None, Fetcher(resolver=resolve, limits=sending.LIMITS))

    observer.on_response(AGENT, end(1), RUN)
    with pytest.raises(NotTaken, match=r"hooks\.test is not a public host"):
        observer.on_response(AGENT, end(2), RUN)

    assert (len(receiver.taken), answers) == (1, [])  # one look-up for each delivery
    assert receiver.taken[0].headers["host"] == f"hooks.test:{receiver.port}"


@pytest.mark.parity
@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_is_not_followed(receiver: Receiver, status: int):
    with Receiver() as elsewhere:
        receiver.script = answering(status, Location=elsewhere.url() if status == 302 else "/same")

        with pytest.raises(NotTaken, match=rf"HTTP {status} from 127.0.0.1: it redirects"):
            observer_of(receiver).on_response(AGENT, end(1), RUN)

        assert (len(receiver.attempts), elsewhere.attempts) == (1, [])


# --- what the answer means


@pytest.mark.parity
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nhal",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000,
    ],
)
def test_a_success_is_one_whatever_becomes_of_its_body(receiver: Receiver, answer: bytes):
    receiver.script = lambda _: answer

    observer_of(receiver).on_response(AGENT, end(1), RUN)

    assert len(receiver.attempts) == 1


@pytest.mark.parity
@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (answering(500, b"no, token=sk-proj-" + b"a" * 40 + b" " + b"long " * 500), "HTTP 500 from 127.0.0.1: no, "),
        (answering(404), "HTTP 404 from 127.0.0.1$"),
        (lambda _: b"HTTP/1.1 200", "broke the connection"),
        (lambda _: b"", "broke the connection"),
        (lambda _: b"SSH-2.0-OpenSSH_9.6\r\n", "broke the connection"),
        (dribbling, "did not answer within 0.5 seconds"),
    ],
)
def test_what_is_no_success_is_a_failure_with_a_sentence(receiver: Receiver, script: Any, problem: str):
    receiver.script = script

    with pytest.raises(NotTaken, match=problem) as caught:
        observer_of(receiver, total_s=0.5).on_response(AGENT, end(1), RUN)

    assert "sk-proj" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parity
@pytest.mark.parametrize(
    ("status", "header", "expected"),
    [
        (429, "120", (120, 120)),
        (503, lambda: "Wed, 01 Jan 2200 00:00:00 GMT", (1e9, 1e12)),
        (503, "soon", (0, 0)),
        (503, "9" * 5000, (0, 0)),
        (500, "120", (0, 0)),
    ],
)
def test_a_receiver_that_is_busy_says_when_to_come_again(receiver: Receiver, status: int, header: Any, expected: Any):
    text = header() if isinstance(header, Callable) else header  # type: ignore[arg-type]
    receiver.script = answering(status, Retry_After=text)

    with pytest.raises(NotTaken) as caught:
        observer_of(receiver).on_response(AGENT, end(1), RUN)

    assert expected[0] <= caught.value.again_in_s <= expected[1]


# --- from the log


@pytest.mark.parity
def test_an_endpoint_gets_the_runs_of_its_tenant_alone(endpoints: Endpoints, receiver: Receiver):
    endpoints.declare(endpoints.declare_shop(receiver))
    own, others = endpoints.log.run(), endpoints.log.run(tenant="other")
    endpoints.log.turn([own, others])

    drain(endpoints.members())

    assert [delivery.place for delivery in receiver.taken] == [(own, "run.ended")]


@pytest.mark.parity
def test_a_receiver_that_is_down_for_an_hour_gets_each_event_in_the_order_of_its_run(
    endpoints: Endpoints, receiver: Receiver, monkeypatch
):
    endpoints.declare(endpoints.declare_shop(receiver))
    runs = endpoints.log.runs(60)
    moved_ms = 0
    for module in (tailing, failing):
        monkeypatch.setattr(module, "epoch_ms", lambda: epoch_ms() + moved_ms)
    monkeypatch.setattr(tailing, "LONGEST_PAUSE_S", 0.0)
    receiver.script = answering(503)
    [member] = members = endpoints.members()

    for minute in range(61):
        moved_ms = minute * 60_000
        if minute == 1:
            endpoints.log.add_all((run, approval(2)) for run in runs)
        if minute == 20:
            endpoints.log.add_all((run, end(3)) for run in runs)
        for _ in range(3):
            member.step()
    assert (receiver.taken, endpoints.state().dead) == ([], 0)
    assert endpoints.state().retrying > 0
    receiver.script = lambda _: TAKEN
    for _ in range(5):  # pauses are an hour at most
        moved_ms += HOUR_MS
        drain(members)

    by_run = {run: [place[1] for each in receiver.taken if (place := each.place)[0] == run] for run in runs}
    assert by_run == {run: ["approval.asked", "run.ended"] for run in runs}
    assert endpoints.letters() == []
    ids = {each.id for each in receiver.attempts}
    assert len(ids) == 120  # each further attempt has the id of the first


@pytest.mark.parity
def test_an_endpoint_that_fails_holds_no_other_one_back(endpoints: Endpoints, receiver: Receiver):
    with Receiver() as broken:
        broken.script = answering(500)
        endpoints.declare(endpoints.declare_shop(receiver) + endpoints.declare_shop(broken, "other"))
        run = endpoints.log.run()
        endpoints.log.turn([run])

        drain(endpoints.members())

        assert [len(receiver.taken), len(broken.taken)] == [1, 0]
    assert (endpoints.state().retrying, endpoints.state("other").retrying) == (0, 1)
    assert [letter["error"] for letter in endpoints.letters("other")] == ["HTTP 500 from 127.0.0.1"]


@pytest.mark.parity
def test_an_endpoint_that_is_gone_is_paused_and_gets_the_event_when_it_is_resumed(
    endpoints: Endpoints, receiver: Receiver, caplog
):
    endpoints.declare(endpoints.declare_shop(receiver))
    endpoints.log.turn(endpoints.log.runs(3))
    receiver.script = answering(410)
    members = endpoints.members()

    with caplog.at_level(logging.ERROR):
        drain(members)

    assert (endpoints.state().state, len(receiver.attempts)) == ("paused", 1)
    assert "HTTP 410 from 127.0.0.1: the endpoint is gone" in caplog.text
    receiver.script = lambda _: TAKEN
    ObserverCursors(endpoints.database).pause("shop", is_paused=False)
    endpoints.feed_again()
    drain(members)
    assert len(receiver.taken) == 3


@pytest.mark.parity
@pytest.mark.parametrize(("named", "pause_s"), [("1800", 1800), ("999999", 3600)])
def test_a_busy_receiver_is_not_asked_before_the_time_that_it_named_within_an_hour(
    endpoints: Endpoints, receiver: Receiver, named: str, pause_s: int
):
    endpoints.declare(endpoints.declare_shop(receiver))
    endpoints.log.turn(endpoints.log.runs(1))
    receiver.script = answering(429, Retry_After=named)

    drain(endpoints.members())

    [letter] = endpoints.letters()
    assert pause_s - 10 < (letter["next_ms"] - epoch_ms()) / 1000 <= pause_s


@pytest.mark.parity
def test_a_dead_letter_of_an_earlier_release_is_sent_again(endpoints: Endpoints, receiver: Receiver, monkeypatch):
    endpoints.declare(endpoints.declare_shop(receiver))
    run = endpoints.log.run()
    endpoints.log.turn([run])
    moved_ms = 0
    for module in (tailing, failing):
        monkeypatch.setattr(module, "epoch_ms", lambda: epoch_ms() + moved_ms)
    receiver.script = answering(500)
    members = endpoints.members()
    drain(members)
    moved_ms = 25 * HOUR_MS
    drain(members)
    assert endpoints.state().dead == 1

    old = f'{{"type":"end","run_id":"{run}","seq":3,"at":"{stamp()}","status":"succeeded","retired":{{"deep":[1]}}}}'
    with endpoints.database.write() as connection:
        connection.execute(update(events).where(events.c.type == "end").values(data_json=old))
    receiver.script = lambda _: TAKEN
    endpoints.feed_again()
    drain(members)

    assert [delivery.place for delivery in receiver.taken] == [(run, "run.ended")]
    assert {delivery.id for delivery in receiver.attempts} == {receiver.taken[0].id}
    assert endpoints.letters() == []


# --- what is declared


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("{secret: env:S}", "shop.options.url: is missing"),
        ("{url: 'https://a.example'}", "shop.options.secret: is missing"),
        ("{url: 'https://a.example', secret: whsec_aaaa}", "never the secret itself"),
        ("{url: 'https://a.example', secret: env:OPENAI_API_KEY}", "may not be the key of a provider"),
        ("{url: 'http://a.example', secret: env:S}", "has to begin with https://"),
        ("{url: 'https://u:p@a.example', secret: env:S}", "send credentials in a header"),
        ("{url: 'ftp://a.example', secret: env:S}", "only http and https are possible"),
        ("{url: 'https://a.example', secret: env:S, hosts: ['a b']}", "is not a host"),
        ("{url: 'https://a.example', secret: env:S, content: 1}", "has to be `true` or `false`"),
        ("{url: 'https://a.example', secret: env:S, sekret: x}", "no such field. Did you mean"),
        ("[]", "has to be a mapping"),
    ],
)
def test_a_mistake_in_a_declaration_names_the_line_and_the_field(settings: Settings, tmp_path, options, problem):
    path = tmp_path / "observers.yaml"
    path.write_text(f"shop:\n  class: webhooks\n  tenants: [default]\n  options: {options}\n")
    chosen = settings.model_copy(update={"observers_file": str(path)})

    with pytest.raises(DefinitionInvalid) as caught:
        tailed_observers("webhooks", chosen)

    assert problem in str(caught.value)
    assert f"{path}:4" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        ("", "webhooks", "no observer has the class 'webhooks', which needs options; declare one"),
        ("shop: {class: webhooks, tenants: [default]}", "shop", "shop.options.url: is missing"),
        ("shop: {class: webhooks, options: {url: 'https://a.example', secret: env:S}}", "shop", "tenants: [default]"),
        (
            "shop: {class: webhooks, tenants: [a], types: [tool], options: {}}",
            "shop",
            "its class gets no type of events",
        ),
        ("m: {class: metrics, options: {url: x}}", "m", "its class takes no options"),
    ],
)
def test_what_is_not_declared_in_full_is_not_fed(settings: Settings, tmp_path, text, name, problem):
    path = tmp_path / "observers.yaml"
    path.write_text(text or "m: {class: metrics}")
    chosen = settings.model_copy(update={"observers_file": str(path)})

    with pytest.raises((DefinitionInvalid, PluginUnknown)) as caught:
        tailed_observers(name, chosen)

    assert problem in str(caught.value)


def test_the_class_stands_for_all_that_are_declared_with_it_and_reads_two_types_of_events(settings: Settings, tmp_path):
    path, options = tmp_path / "observers.yaml", "{url: 'https://a.example', secret: env:S}"
    shop = f"{{class: webhooks, tenants: [default], options: {options}}}"
    path.write_text(f"shop: {shop}\nm: {{class: metrics}}\nends: {shop[:-1]}, types: [end]}}\n")
    chosen = settings.model_copy(update={"observers_file": str(path)})

    shop_observer, ends = tailed_observers("webhooks", chosen)

    assert (shop_observer.name, ends.name) == ("shop", "ends")
    assert [sorted(each.selection.types) for each in (shop_observer, ends)] == [["approval", "end"], ["end"]]
    assert tailed_observer("signals", chosen).selection.types == frozenset(), "all types"


def test_an_agents_definition_cannot_name_it(settings: Settings):
    with pytest.raises(PluginUnknown, match="sent from the log"):
        observers_for(["webhooks"], settings)
