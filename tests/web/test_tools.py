"""The tools over HTTP."""

from __future__ import annotations

from bus.journal import LoadedTool, WorkerRow

SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}}}


def clock(effect: str) -> LoadedTool:
    return LoadedTool(
        name="clock",
        description="Tells the time.",
        input_schema=SCHEMA,
        effect=effect,
        timeout_s=5.0,
        agents=("assistant",),
    )


def test_tools_are_listed_as_a_worker_wrote_them(client, journal) -> None:
    worker = WorkerRow(id="own_1", host="h", pid=1, pool="threads", slots=1, busy=0, queue="runs", queues=("runs",))
    journal.workers.renew(worker)
    journal.tools.replace("own_1", [clock("pure"), clock("unsafe")])

    listed, seed = client.get("/v1/tools"), client.get("/tools")
    again = client.get("/v1/tools", headers={"If-None-Match": listed.headers["ETag"]})

    assert {(tool["name"], tool["effect"], *tool["agents"]) for tool in listed.json["tools"]} == {
        ("clock", "pure", "assistant"),
        ("clock", "unsafe", "assistant"),
    }
    assert seed.json == {"tools": [{"name": "clock", "description": "Tells the time.", "input_schema": SCHEMA}]}
    assert again.status_code == 304
