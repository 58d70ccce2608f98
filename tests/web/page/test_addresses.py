"""Addresses of the page, and filters of runs: as they are typed, kept in the address, and asked of the server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

ROUTES = "const { routeOf } = await import(`${page}/router.js`); return argument.map((hash) => routeOf(hash));"
HASHES = """
  const { noteMe } = await import(`${page}/state/me.js`);
  noteMe({ principal: "mara", roles: [] });
  const { routeOf, threadHash, threadOfRoute } = await import(`${page}/router.js`);
  const { threadKey } = await import(`${page}/state/me.js`);
  return argument.map(([thread, owner, run]) => {
    const key = threadKey(thread, owner), hash = threadHash(key, run ?? undefined), route = routeOf(hash);
    return [hash, threadOfRoute(route) === key && route.params.runId === (run ?? undefined)];
  });
"""
PARSE = """
  const { parse, textOf } = await import(`${page}/state/filter.js`);
  return argument.map((text) => {
    const { query, problems } = parse(text);
    return [query, problems, parse(textOf(query)).query];
  });
"""
ASK = """
  process.env.TZ = "Europe/Oslo";
  const { serverQuery } = await import(`${page}/state/filter.js`);
  return argument.map(serverQuery);
"""
PROBLEMS = "const { problemsOf } = await import(`${page}/state/filter.js`); return argument.map(problemsOf);"
MATCH = """
  const { matches } = await import(`${page}/state/filter.js`);
  return argument.queries.map((query) => matches(query, argument.run, Date.parse("2026-11-24T12:00:00Z")));
"""
RUN = {
    "run_id": "run_01abc9tyq",
    "title": "Pay back order 1043",
    "agent": "support",
    "principal": "shop",
    "status": "failed",
    "error": "model_timeout",
    "kind": "agent",
    "created_at": "2026-11-24T11:30:00Z",
    "ended_at": "2026-11-24T11:55:00Z",
}


@pytest.mark.parametrize(
    ("hash_", "name", "params", "query"),
    [
        ("", "new", {}, {}),
        ("#/", "new", {}, {}),
        ("#/board/", "board", {}, {}),
        ("#/board?status=failed&q=a%20b", "board", {}, {"status": "failed", "q": "a b"}),
        ("#/thread/t%2F1", "thread", {"threadId": "t/1"}, {}),
        ("#/thread/t/of/ana/run/r", "thread", {"threadId": "t", "owner": "ana", "runId": "r"}, {}),
        ("#/thread/%E0%A4%A", "thread", {"threadId": "%E0%A4%A"}, {}),
        ("#/thread/", "unknown", {"path": "/thread/"}, {}),
        ("#/nothing/here", "unknown", {"path": "/nothing/here"}, {}),
    ],
)
def test_an_address_names_its_place(
    module: Module, hash_: str, name: str, params: dict[str, str], query: dict[str, str]
) -> None:
    assert module(ROUTES, [hash_]) == [{"name": name, "params": params, "query": query}]


def test_the_address_of_a_thread_leads_back_to_it(module: Module) -> None:
    threads = [["t 1", "mara", None], ["t/ü?#", "mara", "run_1"], ["t", "ana", None], ["t", "a%/b", "run_1"]]

    answers = module(HASHES, threads)

    assert answers[0][0] == "#/thread/t%201"
    assert answers[3][0] == "#/thread/t/of/a%25%2Fb/run/run_1"
    assert all(is_same for _, is_same in answers)


def test_a_filter_is_read_from_words_and_written_as_words(module: Module) -> None:
    texts = {
        "": {},
        "agent:support refund": {"agent": "support", "q": "refund"},
        'agent:"Support desk" "two  words" x': {"agent": "Support desk", "q": "two  words x"},
        'owner:"a \\"b\\" c"': {"owner": 'a "b" c'},
        "status:failed code:model_timeout since:1h until:2026-11-24T09:00": {
            "status": "failed",
            "code": "model_timeout",
            "since": "1h",
            "until": "2026-11-24T09:00",
        },
        "https://pay.example/x": {"q": "https://pay.example/x"},
        '"order:1043"': {"q": "order:1043"},
        "<img src=x> \u202e": {"q": "<img src=x> \u202e"},
    }

    answers = module(PARSE, list(texts))

    assert [query for query, _, _ in answers] == list(texts.values())
    assert not any(problems for _, problems, _ in answers)
    assert all(
        {**again, "q": "".join(again.get("q", "").split())} == {**query, "q": "".join(query.get("q", "").split())}
        for query, _, again in answers
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("colour:red", "There is no field “colour”; use status, agent"),
        ("__proto__:x", "There is no field “__proto__”"),
        ("status:broken", "“status” cannot be “broken”; use open, queued"),
        ("since:yesterday", "“since” cannot be “yesterday”; use it as in since:1h"),
        ("agent:a agent:b", "“agent” is given twice."),
        ('agent:""', "“agent” cannot be “”"),
        ('agent:"un', 'The quote in agent:"un has no end'),
        ('"two', 'The quote in "two has no end'),
    ],
)
def test_what_cannot_be_asked_is_said_and_the_rest_is_kept(module: Module, text: str, sentence: str) -> None:
    ((query, problems, _),) = module(PARSE, [f"{text} refund"])

    assert problems[0].startswith(sentence)
    assert query["q"] == "refund"


@pytest.mark.parametrize(
    ("query", "is_match"),
    [
        ({}, True),
        ({"status": "open"}, False),
        ({"status": "failed", "code": "model_timeout", "agent": "support"}, True),
        ({"agent": "suppor"}, False),
        ({"owner": "shop"}, True),
        ({"since": "1h"}, True),
        ({"since": "10m"}, False),
        ({"until": "2026-11-24T11:00:00Z"}, False),
        ({"q": "ORDER pay"}, True),
        ({"q": "order 7"}, False),
        ({"q": "bc9tyq"}, True),
        ({"q": "9tyq"}, False),
        ({"code": "any"}, True),
        ({"code": "any", "since": "10m"}, True),
        ({"queue": "ocr"}, False),
        ({"status": "asking"}, False),
    ],
)
def test_a_run_that_arrives_live_is_matched_as_the_server_does(
    module: Module, query: dict[str, Any], is_match: bool
) -> None:
    assert module(MATCH, {"queries": [query], "run": RUN}) == [is_match]


def test_the_runs_that_ask_a_person_are_waiting_ones_to_the_server(module: Module) -> None:
    run = {**RUN, "status": "waiting"}

    assert module(ASK, [{"status": "asking"}]) == [{"status": "waiting"}]
    assert module(MATCH, {"queries": [{"status": "asking"}], "run": {**run, "reason": "approval"}}) == [True]
    assert module(MATCH, {"queries": [{"status": "asking"}], "run": {**run, "reason": "signal"}}) == [False]


def test_an_address_that_cannot_be_asked_is_said_as_what_is_typed(module: Module) -> None:
    addresses = [{"status": "foo", "colour": "red"}, {"since": "1h", "q": "a:b", "agent": ""}]

    sentences, none = module(PROBLEMS, addresses)

    assert sentences == module(PARSE, ["status:foo colour:red"])[0][1]
    assert none == []


def test_a_time_without_a_zone_is_the_readers_own(module: Module) -> None:
    times = ["1h", "2026-11-24T09:00", "2026-11-24", "2026-11-24T09:00:00Z", "2026-13-45"]

    answers = module(ASK, [{"since": time, "agent": "support"} for time in times] + [{"until": times[1]}, {}])

    utc = ["1h", "2026-11-24T08:00:00.000Z", "2026-11-23T23:00:00.000Z", "2026-11-24T09:00:00.000Z", "2026-13-45"]
    assert answers[:5] == [{"since": time, "agent": "support"} for time in utc]
    assert answers[5:] == [{"until": utc[1]}, {}]
