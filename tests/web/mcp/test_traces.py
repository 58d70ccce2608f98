"""Each answer and each refusal names its trace, and the run of a call has it, too."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import pytest
from mcp import Client, MCPError
from pydantic import SecretStr

from bus.identity.envelope import sign
from bus.journal.tailing import RunReader
from config.tracing import is_trace_id
from tests.web.mcp.conftest import Place

SENT, SIGNED = "0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = {"traceparent": f"00-{SENT}-00f067aa0ba902b7-01"}
TRACE = "callboard/trace_id"


def _call(endpoint: Place, mode: str, name: str, arguments: dict[str, Any], meta: Any = None) -> Any:
    return endpoint.use(lambda client: client.call_tool(name, arguments, meta=meta), mode)


def test_an_answer_and_its_run_have_the_trace_that_the_call_names(place: Place, mode: str) -> None:
    answer = _call(place, mode, "add", {"a": 1, "b": 2}, PARENT)

    state = answer.structured_content
    assert (answer.meta[TRACE], state["trace_id"]) == (SENT, SENT)
    assert place.service.journal.readers.runs.get(place.service.runner.principal, state["run_id"])["trace_id"] == SENT
    run = RunReader(place.service.journal.database).run(state["run_id"])
    assert run is not None
    assert run.parent_span == "00f067aa0ba902b7"


@pytest.mark.parametrize("parent", ["", "00-1-2-3", 7, None, f"00-{'0' * 32}-00f067aa0ba902b7-01"])
def test_without_a_trace_of_the_call_there_is_a_new_one(place: Place, parent: Any) -> None:
    answers = [_call(place, "legacy", "add", {"a": "x"}, {"traceparent": parent}) for _ in range(2)]

    ids = [answer.meta[TRACE] for answer in answers]
    assert all(map(is_trace_id, ids))
    assert len({SENT, *ids}) == 3
    assert [result.structured_content["trace_id"] for result in answers] == ids


def test_refusals_name_their_trace(place: Place, mode: str) -> None:
    async def work(client: Client) -> list[Any]:
        trace_ids: list[Any] = [(await client.call_tool("add", {"a": "x"}, meta=PARENT)).meta[TRACE]]  # type: ignore[arg-type,index]  # an open map
        for refused in (
            client.call_tool("ad", {}, meta=PARENT),  # type: ignore[arg-type]  # an open map
            client.read_resource("callboard://runs/no", meta=PARENT),  # type: ignore[arg-type]  # the same
            client.get_prompt("no", meta=PARENT),  # type: ignore[arg-type]  # the same
        ):
            with pytest.raises(MCPError) as caught:
                await refused
            trace_ids.append(caught.value.error.data["trace_id"])
        return trace_ids

    assert place.use(work, mode) == [SENT] * 4


def test_lists_name_their_trace(place: Place, mode: str) -> None:
    async def work(client: Client) -> list[Any]:
        return [await client.list_tools(), await client.list_resources(), await client.list_resource_templates()]

    assert all(is_trace_id(answer.meta[TRACE]) for answer in place.use(work, mode))


def test_the_answer_of_a_ping_is_empty(place: Place) -> None:
    assert place.use(lambda client: client.session.send_ping()).meta is None


def test_a_verified_envelope_names_the_trace_and_its_key_is_kept_with_the_run(place: Place, mode: str) -> None:
    secret = "5d2f0c8a" * 8
    signed = place.with_settings(envelope_keys=SecretStr(f"main:{secret}"), envelope_audience="default")
    text = json.dumps({"name": "add", "arguments": {"a": 1, "b": 2}})
    envelope = sign(
        text.encode(),
        key_id="main",
        key=secret.encode(),
        audience="default/default",
        method="tools/call",
        time_s=int(time.time()),
        nonce=secrets.token_urlsafe(16),
        context=json.dumps({"trace_id": SIGNED}).encode(),
    )
    meta = {"callboard/envelope": envelope, "callboard/call": text, **PARENT}

    state = _call(signed, mode, "add", {"a": 1, "b": 2}, meta).structured_content
    again = _call(signed, mode, "add", {"a": 1, "b": 2}, meta)

    run = place.service.journal.readers.runs.get(place.service.runner.principal, state["run_id"])
    assert (state["trace_id"], run["trace_id"], run["metadata"]) == (SIGNED, SIGNED, {"envelope_key": "main"})
    assert (again.structured_content["code"], again.meta[TRACE]) == ("UNAUTHORIZED", SENT)
