"""The tools over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bus.journal.stores import LoadedTool, ToolMetadata, WorkerRow
from config.ids import canonical_digest

SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}}}


WORKER = WorkerRow(id="own_1", host="h", pid=1, pool="threads", slots=1, busy=0, queue="runs", queues=("runs",))


def clock(effect: str, **fields: Any) -> LoadedTool:
    return LoadedTool(
        name="clock",
        description="Tells the time.",
        input_schema=SCHEMA,
        effect=effect,
        timeout_s=5.0,
        agents=("assistant",),
        **fields,
    )


def test_tools_are_listed_as_a_worker_wrote_them(client, journal) -> None:
    journal.stores.workers.renew(WORKER)
    journal.stores.tools.replace("own_1", [clock("pure"), clock("unsafe")])

    listed, seed = client.get("/v1/tools"), client.get("/tools")
    again = client.get("/v1/tools", headers={"If-None-Match": listed.headers["ETag"]})

    assert {(tool["name"], tool["effect"], *tool["agents"]) for tool in listed.json["tools"]} == {
        ("clock", "pure", "assistant"),
        ("clock", "unsafe", "assistant"),
    }
    tools = [{"name": "clock", "description": "Tells the time.", "input_schema": SCHEMA}]
    assert seed.json == {"tools": tools, "digest": canonical_digest(tools)}
    assert again.status_code == 304


def test_a_tool_says_who_answers_for_it_and_what_it_needs(client, journal) -> None:
    tool_metadata = ToolMetadata(
        title="Read the clock in {zone}",
        version="2.1.0",
        maintainer="a@example.org",
        kind="commander",
        classification="RESTRICTED",
        secrets=("TOKEN",),
    )
    journal.stores.workers.renew(WORKER)
    journal.stores.tools.replace("own_1", [clock("keyed", metadata=tool_metadata)])
    before = client.get("/v1/tools").json
    journal.stores.tools.replace("own_1", [clock("keyed", metadata=replace(tool_metadata, version="2.2.0"))])

    (tool,) = before["tools"]
    assert tool["title"] == "Read the clock in {zone}"
    assert (tool["version"], tool["maintainer"], tool["kind"], tool["classification"], tool["secrets"]) == (
        "2.1.0",
        "a@example.org",
        "commander",
        "RESTRICTED",
        ["TOKEN"],
    )
    assert client.get("/v1/tools").json["digest"] != before["digest"]


def test_calls_that_were_given_up_are_in_the_health(client, journal) -> None:
    journal.stores.workers.renew(replace(WORKER, abandoned={"slow": 3}))

    assert client.get("/health").json["abandoned_calls"] == {"slow": 3}


@pytest.mark.parametrize(("others", "status"), [([], "ok"), ([{}], "degraded")], ids=["all", "some"])
def test_a_key_that_some_workers_lack_degrades_the_health(client, journal, others, status) -> None:
    for number, missing in enumerate([{"A_KEY": ["assistant"]}, *others]):
        journal.stores.workers.renew(replace(WORKER, id=f"own_{number}", missing_keys=missing))

    health = client.get("/health").json

    assert health["missing_keys"] == {"A_KEY": {"agents": ["assistant"], "workers": 1}}
    assert health["status"] == status


def test_the_states_of_mcp_servers_are_in_the_health(client, journal) -> None:
    state = {"state": "backing_off", "transport": "stdio", "reason": "it ended with status 127", "next_try_s": 2.5}
    journal.stores.workers.renew(replace(WORKER, mcp_servers={"files": state}))

    assert client.get("/health").json["mcp_servers"] == {"files": state | {"workers": {"backing_off": 1}}}


def test_a_tool_of_an_mcp_server_has_its_origin_and_whether_it_changed(client, journal) -> None:
    origin = {"server": "files", "tool": "read.text", "manifest": "d" * 64}
    own, server_tool = clock("pure"), clock("pure", metadata=ToolMetadata(mcp=origin))
    journal.stores.workers.renew(WORKER)
    journal.stores.tools.replace("own_1", [own, server_tool])
    origins = [tool.get("mcp") for tool in client.get("/v1/tools").json["tools"]]
    assert sorted(origins, key=bool) == [None, origin | {"changed": False}]
    etag = client.get("/v1/tools").headers["ETag"]

    journal.stores.workers.renew(replace(WORKER, mcp_servers={"files": {"state": "ready", "changed": ["read.text"]}}))

    answer = client.get("/v1/tools", headers={"If-None-Match": etag})
    assert [tool["mcp"]["changed"] for tool in answer.json["tools"] if "mcp" in tool] == [True]
    assert [sorted(tool) for tool in client.get("/tools").json["tools"]] == [["description", "input_schema", "name"]]
