"""The TypeScript client: compiled as the page has it, and following a run of a real web process in Node."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.runner import Runner
from config.folders import ROOT
from tests.clients.python.cutting_proxy import CuttingProxy, server_at
from tests.clients.python.test_workflows import WORKFLOW as BILLING
from tests.journeys.web_server import Web
from tests.web.conftest import RunOwner, furnish_served, opened

pytestmark = [pytest.mark.parity, pytest.mark.timeout(300)]

SOURCE = ROOT / "clients" / "typescript"
CUTS = (0, 701, 20_011)
"""Bytes after which the first connections are cut off."""
FOLLOW = """
import { Callboard } from "%(client)s/index.js";
const server = new Callboard({ baseUrl: "%(address)s", apiKey: "of-the-proxy" });
const seen = [];
for await (const event of server.handle("%(run_id)s").events({ after: %(after)d })) seen.push(event);
console.log(JSON.stringify(seen));
"""
USE = """
import { ApiError, Callboard } from "%(client)s/index.js";
const server = new Callboard({ baseUrl: "%(address)s" });
const run = await server.run("assistant", "Hello", { threadId: "talk", key: "k1" });
const again = await server.run("assistant", "Hello", { threadId: "talk", key: "k1" });
const { runs } = await server.runs({ thread_id: "talk" });
const cancelled = await run.cancel();
const end = await run.result();
const refused = await server.getRun("run_none").catch((error) => error);
const board = await new Promise((resolve) => {
  const onEvent = ({ event, data }) => { feed.stop(); resolve([event, data.runs.length]); };
  const feed = server.board({ onEvent }).start();
});
console.log(JSON.stringify({
  same: run.runId === again.runId, count: runs.length, cancelled: cancelled.status, end: end.status, board,
  messages: (await server.messages("talk")).map((message) => message.role),
  summaries: (await server.summaries("talk")).summaries,
  counted: (await server.counts("status", { thread_id: "talk", since: "1h" })).groups,
  oldest: (await server.runs({ sort: "oldest", q: "hello", kind: "agent" })).runs.length,
  queues: (await server.queues()).queues.map((queue) => queue.queue),
  workers: (await server.workers()).workers,
  checks: (await server.doctor()).findings.map((finding) => finding.check),
  observers: (await server.observers({ name: "none" })).observers,
  version: await server.run("assistant", "Hello", { version: 99 }).catch((error) => error.code),
  isFed: (await server.metrics({ since: "1h" })).is_fed,
  agents: (await server.agents()).agents.map((agent) => agent.id),
  refused: [refused instanceof ApiError, refused.code, refused.status],
}));
"""

CONTROL = """
import { Callboard } from "%(client)s/index.js";
const server = new Callboard({ baseUrl: "%(address)s" });
const send = (text, options) => server.run("assistant", text, { threadId: "controls", ...options });
const codeOf = async (answer) => (await answer.catch((error) => error)).code;
const first = await send("First", { priority: "low", onDisconnect: "stop:60" });
const [second, third] = [await send("Second"), await send("Third")];
const fork = await server.forkThread("controls", 1, { newThreadId: "controls-2" });
const merged = await send("Fourth", { ifBusy: "merge" });
const retried = await server.handle("%(failed)s").retry({ key: "again" });
const again = await server.handle("%(failed)s").retry({ key: "again" });
const edited = await server.editQueued("controls", second.runId, { content: "Second, better", place: "first" });
const limited = await second.set({ maxIterations: 2, priority: "high" });
const [paused, resumed] = [await first.pause(), await first.resume({ expectedStatus: "waiting" })];
const steered = await first.steer("Be brief.", { expectedStatus: "queued" });
const { queue, next } = await server.queue("controls", { limit: 1 });
await server.removeQueued("controls", third.runId);
const rest = (await server.queue("controls", { after: next })).queue;
console.log(JSON.stringify({
  first: [(await first.get()).priority, first.delivered ?? null],
  merged: [merged.runId === third.runId, merged.delivered],
  retried: retried.runId === again.runId && (await retried.get()).retry_of,
  edited: [edited.run_id === second.runId, edited.status],
  steered: steered.number, limited: [limited.run_id === second.runId, (await second.get()).priority],
  states: [paused.status, resumed.status], fork, queue: queue.map((entry) => entry.content),
  rest: rest.map((entry) => [entry.kind, entry.content]),
  control: rest.some((entry) => entry.control_id === steered.control_id),
  refused: [
    await codeOf(first.cancel({ expectedStatus: "running" })),
    await codeOf(server.removeQueued("controls", third.runId)),
    await codeOf(first.rerun(1)), await codeOf(send("Fifth", { ifBusy: "reject" })),
  ],
}));
"""

WORKFLOW = """
import { Callboard } from "%(client)s/index.js";
const server = new Callboard({ baseUrl: "%(address)s" });
const codeOf = async (answer) => (await answer.catch((error) => error)).code;
const run = await server.runWorkflow("billing", { cents: 5 }, { key: "w1" });
const again = await server.runWorkflow("billing", { cents: 5 }, { key: "w1" });
const { workflows } = await server.workflows();
const { definition } = await run.get();
const shown = await server.getWorkflow("billing", { digest: definition });
const signal = await run.signal("paid", 5);
console.log(JSON.stringify({
  same: run.runId === again.runId, workflows: workflows.map((workflow) => workflow.id),
  steps: await run.steps({ under: "all" }),
  nodes: shown.nodes.map((node) => node.id), digest: shown.digest === definition, signal: Boolean(signal.control_id),
  refused: [
    await codeOf(server.runWorkflow("billing", {})), await codeOf(run.signal("paid")),
    await codeOf(server.run("billing", "x")),
  ],
}));
"""

REFUSED = """
import { createServer } from "node:http";
import { Callboard } from "%(client)s/index.js";
const answers = %(answers)s;
const [counts, said] = [[], []];
let answer, count = 0;
const server = createServer((request, response) => {
  count += 1;
  const [status, body] = request.headers.accept === "text/event-stream" && count > 1 ? [204, ""] : answer;
  response.writeHead(status).end(body && JSON.stringify(body));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const callboard = new Callboard({ baseUrl: `http://127.0.0.1:${server.address().port}`, attempts: 2 });
for (answer of answers) {
  count = 0;
  const error = await callboard.getRun("run_1").catch((error) => error);
  counts.push(count);
  said.push(error.retryable);
}
count = 0;
answer = answers[0];
const end = await new Promise((resolve) => {
  const onState = ({ name }) => ["refused", "ended"].includes(name) && resolve(name);
  callboard.board({ onEvent() {}, onState }).start();
});
server.close();
console.log(JSON.stringify({ counts, said, end }));
"""

WRONG = """
import { Callboard } from "%(client)s/index.js";
const said = [], keys = [];
for (const baseUrl of ["localhost:8000", "https://ann:secret@callboard.example", "http://host:1/v1", "http://host?x"]) {
  try { new Callboard({ baseUrl }); } catch (error) { said.push(error.message); }
}
for (const apiKey of ["", " cbk_1", "cbk_\\n1", "cbk_ü"]) {
  try { new Callboard({ apiKey }); } catch (error) { keys.push(error.message); }
}
const away = new Callboard({ baseUrl: "http://127.0.0.1:%(port)d", attempts: 1 });
said.push((await away.health().catch((error) => error)).message);
console.log(JSON.stringify([...said, ...keys]));
"""


@pytest.fixture(scope="session")  # a slow test of this file runs long before the others
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the client, compiled from a copy of its sources."""
    if shutil.which("npm") is None and not os.environ.get("CI"):
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("typescript")
    with (ROOT / ".venv" / "typescript.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another test process may install the compiler
        shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("dist"))
        environment = {**os.environ, "CALLBOARD_ROOT": str(ROOT)}
        build = [str(folder / "source" / "build")]
        done = subprocess.run(build, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "source" / "dist" / "package.json").write_text('{"type": "module"}')
    return folder / "source"


def test_the_types_are_those_of_the_server(client: Path) -> None:
    new_schema, source_schema = (folder / "src" / "schema.ts" for folder in (client, SOURCE))

    assert new_schema.read_text() == source_schema.read_text(), "run clients/typescript/build"


def test_the_page_uses_the_client_as_it_is_compiled(client: Path) -> None:
    page = ROOT / "web" / "static" / "client"

    for module in page.iterdir():
        text = (client / "dist" / module.name).read_text()
        assert module.read_text() == text, f"run clients/typescript/build and copy dist/{module.name} to {page}"


def test_the_pages_modules_have_the_types_that_they_name(client: Path) -> None:
    compiler = ROOT / ".venv" / "typescript" / "node_modules" / ".bin" / "tsc"

    done = subprocess.run(
        [str(compiler), "--project", str(ROOT / "web" / "static" / "jsconfig.json")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[Runner]:
    folder = tmp_path_factory.mktemp("web")
    with opened(furnish_served(folder, empty_database)) as runner:
        yield runner


@pytest.fixture(scope="module")
def web(runner: Runner) -> Iterator[Web]:
    with Web(runner.settings) as web:
        yield web


def in_node(script: str, **facts: object) -> Any:
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script % facts], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 40])
def test_a_run_is_followed_through_cuts_each_event_once(client: Path, web: Web, runner: Runner, after: int) -> None:
    run_id = runner.run("Hello", "assistant").run_id
    owner = RunOwner(runner.journal, run_id)
    owner.say(*(f"{number}: é→🎭\u2028\n " for number in range(196)))
    owner.finish()
    cuts = iter(CUTS)

    with CuttingProxy(server_at(web.settings.port), lambda request: next(cuts, None)) as proxy:
        seen = in_node(FOLLOW, client=client / "dist", address=proxy.address, run_id=run_id, after=after)

    assert [event["seq"] for event in seen] == list(range(after + 1, 201))
    assert next(cuts, "all were used") == "all were used"


def test_runs_threads_and_agents_are_reached(client: Path, web: Web) -> None:
    result = in_node(USE, client=client / "dist", address=web.address)

    assert result["same"] is True
    assert (result["count"], result["cancelled"], result["end"]) == (1, "cancelled", "cancelled")
    assert result["board"][0] == "snapshot"
    assert result["messages"][0] == "user"
    assert result["summaries"] == []
    assert (result["counted"], result["queues"]) == ([{"value": "cancelled", "count": 1}], ["runs"])
    assert "database" in result["checks"]
    assert (result["oldest"] > 0, result["workers"], result["isFed"]) == (True, [], False)
    assert (result["observers"], result["version"]) == ([], "version_unknown")
    assert "assistant" in result["agents"]
    assert result["refused"] == [True, "run_unknown", 404]


def test_runs_are_controlled_and_repeated_and_messages_that_wait_edited(client: Path, web: Web, runner: Runner) -> None:
    failed = runner.run("Hello", "assistant").run_id
    RunOwner(runner.journal, failed).finish("Hello.", status="failed")

    result = in_node(CONTROL, client=client / "dist", address=web.address, failed=failed)

    assert (result["first"], result["merged"]) == (["low", None], [True, "merged"])
    assert (result["retried"], result["edited"], result["limited"]) == (failed, [True, "queued"], [True, "high"])
    assert (result["steered"], result["states"]) == (4, ["waiting", "queued"])
    assert result["fork"] == {"thread_id": "controls-2", "forked_from": "controls", "at": 1, "messages": 1}
    assert (result["queue"], result["control"]) == (["Second, better"], True)
    assert sorted(result["rest"]) == [["message", "First"], ["steer", "Be brief."]]
    assert result["refused"] == ["control_refused", "message_taken", "run_not_repeatable", "thread_busy"]


def test_workflows_are_started_shown_and_signalled(client: Path, web: Web, runner: Runner) -> None:
    (runner.settings.agent_folders[0] / "billing.yaml").write_text(BILLING)

    result = in_node(WORKFLOW, client=client / "dist", address=web.address)

    assert result["same"] is True
    assert (result["workflows"], result["nodes"], result["digest"]) == (["billing"], ["start", "paid", "end"], True)
    assert (result["signal"], result["steps"]) == (True, {"steps": []})
    assert result["refused"] == ["input_invalid", "signal_invalid", "workflow_missed"]


def test_a_problem_says_whether_the_request_is_repeated_and_a_stream_outlasts_a_defect(client: Path) -> None:
    defect, full = {"code": "internal", "retryable": False}, {"code": "database_full", "retryable": True}
    answers = [
        [500, defect],
        [507, full],
        [408, {"retryable": True}],
        [404, {"retryable": False}],
        [502, ""],
        [400, ""],
    ]

    result = in_node(REFUSED, client=client / "dist", answers=json.dumps(answers))

    assert result["said"] == [False, True, True, False, True, False]
    assert result["counts"] == [2 if is_repeat else 1 for is_repeat in result["said"]]
    assert result["end"] == "ended"


def test_a_wrong_address_or_key_is_refused_with_the_remedy(client: Path, closed_port: int) -> None:
    plain, login, path, query, away, *keys = in_node(WRONG, client=client / "dist", port=closed_port)

    assert plain == login
    assert path == query
    assert "Callboard has a host of its own" in path
    assert "begin with http:// or https://" in plain
    assert "secret" not in login
    assert keys == ["apiKey has to be one or more printable ASCII characters without spaces or line ends."] * 4
    assert (
        away
        == f"http://127.0.0.1:{closed_port} does not answer (ECONNREFUSED). Start Callboard there, or correct baseUrl."
    )
