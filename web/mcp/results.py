"""The result of a call: the state of its run, as text for models and as structured content for programs; its size."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import orjson
from mcp.types import CallToolResult, TextContent

from bus.journal.readers import RunStatus
from bus.payloads import TERMINAL
from config.definitions.schemas.json_schema import schema_errors
from config.tracing import current_trace_id
from web.mcp.errors import name_of
from web.mcp.service import Acting, Service

T = TypeVar("T")

MAX_ANSWER_BYTES = 900_000
"""Most bytes of an answer over HTTP; the rest of the client's limit is left for the message around it.

An answer can be one event of a stream, and the SDK's client refuses an event of more than 1 MiB. The SDK's server
writes each character beyond ASCII as an escape of six or twelve bytes, so sizes are counted in these.
"""
TEXT_BYTES = 20_000
"""Bytes that a result's text has at least, where the structured content needs all others."""
LEAST_CHARS = 1000
"""No text is cut to less than half of this."""
CUT = "\n[cut here: {shown:,} of {whole:,} characters are shown; {where}]"
STRUCTURED = "the structured content has all of it"
TOO_LARGE = "the output is too large for this answer, so it is cut and in the text alone; status_url has all of it."
_COPIED = ("output", "events")
"""Members of the structured content that the text repeats."""


def encoded_bytes(value: Any) -> int:
    """Return the size of JSON data as the SDK's server writes them."""
    return len(json.dumps(value, separators=(",", ":")))


def text_bytes(value: Any) -> int:
    """Return the size of JSON data that are sent as a text."""
    return encoded_bytes(orjson.dumps(value).decode())


def fitted(call_result: CallToolResult, max_bytes: int | None) -> CallToolResult:
    """Return a result of at most ``max_bytes``, or as it is where that is None.

    The text gives way first, since the structured content has the same, and then the output in the structured content.
    """
    state = call_result.structured_content or {}
    text = "".join(part.text for part in call_result.content if isinstance(part, TextContent))
    if max_bytes is None or encoded_bytes(state) + encoded_bytes(text) <= max_bytes:
        return call_result
    where = f"{state.get('status_url', 'the log')} has all of it"
    if encoded_bytes(state) > max_bytes - TEXT_BYTES:
        if "output" in state:
            state = {name: value for name, value in state.items() if name != "output"} | {"reason": TOO_LARGE}
        state = shortened(state, max_bytes - TEXT_BYTES, where)
    if any(name in state for name in _COPIED):
        where = STRUCTURED
    text = shortened(text, max_bytes - encoded_bytes(state), where)
    return call_result.model_copy(
        update={"content": [TextContent(type="text", text=text)], "structured_content": dict(state)}
    )


def shortened(value: T, max_bytes: int, where: str, size: Callable[[Any], int] = encoded_bytes) -> T:
    """Return a text or an object of at most ``max_bytes``: its longest texts are cut, and say ``where`` they are whole.

    A member of an object that has very many short values becomes the beginning of its JSON as text.
    """
    shorter: Any = value
    most = max_bytes
    while size(shorter) > max_bytes and most > LEAST_CHARS:
        most //= 2
        shorter = _with_texts_cut(value, most, where)
    if isinstance(shorter, Mapping) and size(shorter) > max_bytes:
        shorter = {name: _as_text(member, where) for name, member in shorter.items()}
    return cast(T, shorter)


def fitting(values: Sequence[T], max_bytes: int) -> list[T]:
    """Return the first of these JSON data that fit as a text together, and one at least."""
    left = max_bytes
    for count, value in enumerate(values):
        left -= text_bytes(value)
        if left < 0 and count:
            return list(values[:count])
    return list(values)


def _with_texts_cut(value: Any, most: int, where: str) -> Any:
    if isinstance(value, str) and len(value) > most:
        return value[:most] + CUT.format(shown=most, whole=len(value), where=where)
    if isinstance(value, Mapping):
        return {name: _with_texts_cut(member, most, where) for name, member in value.items()}
    return [_with_texts_cut(item, most, where) for item in value] if isinstance(value, list) else value


def _as_text(member: Any, where: str) -> Any:
    if text_bytes(member) <= LEAST_CHARS:
        return member
    text = member if isinstance(member, str) else orjson.dumps(member).decode()
    return _with_texts_cut(text, LEAST_CHARS, where)


REFUSED = "refused"
"""The status of a call that did not become a run."""
APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
"""The code of a call that waits for a person."""
RUNS, THREADS = "callboard://runs/", "callboard://threads/"
"""What the addresses of runs and threads as resources begin with."""
UNFIT = "the output does not fit the declared schema; it is in the text."
_DEFINITIONS = "#/$defs/"
SEED_NAMES = {
    "workflowId": "The run, by which run_status finds it.",
    "runId": "The same.",
    "statusUrl": "Where the run's state is: over HTTP, or as a resource.",
}
"""What the capability design calls the ids and the address of a workflow that was started."""


def run_schema(output: Mapping[str, Any] | None, *, of_workflow: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a call's structured content; ``output`` is that of what the call returns.

    ``of_workflow``: with the names that the capability design has for a run that was started.
    """
    output_schema = dict(output) if output is not None and _is_movable(output) else {}
    definitions = output_schema.pop("$defs", None)
    output_schema.pop("$schema", None)
    text = {"type": "string"}
    properties = {
        "status": {"enum": [*map(str, RunStatus), REFUSED], "description": "succeeded: the output is there."},
        "run_id": text | {"description": "The run that makes the call; absent: the call was refused at once."},
        "thread_id": text | {"description": "The conversation that the run belongs to."},
        "output": output_schema | {"description": output_schema.get("description", "What the call returns.")},
        "code": text | {"description": "Of the error, or APPROVAL_REQUIRED."},
        "error": text | {"description": "What went wrong, as a sentence."},
        "errors": {"type": "array", "items": text, "description": "Where the arguments do not fit, each a sentence."},
        "trace_id": text | {"description": "Finds log records, the run and its spans."},
        "approval_id": text | {"description": "The question that a person has to answer."},
        "reason": text | {"description": "Why a person is asked, or what the run waits for."},
        "status_url": text | {"description": "Where the run's state is: over HTTP, or as a resource."},
        "next": text | {"description": "How to continue."},
    }
    if of_workflow:
        properties |= {name: text | {"description": about} for name, about in SEED_NAMES.items()}
    schema = {"type": "object", "properties": properties, "required": ["status"]}
    return schema | ({"$defs": definitions} if definitions else {})


def _is_movable(schema: Any) -> bool:
    """Return whether a schema means the same inside another one: its references are to its own definitions."""
    if isinstance(schema, Mapping):
        reference = schema.get("$ref", _DEFINITIONS)
        is_known = isinstance(reference, str) and reference.startswith(_DEFINITIONS)
        named = {"$id", "$anchor", "$dynamicRef", "$dynamicAnchor"} & schema.keys()
        return is_known and not named and all(map(_is_movable, schema.values()))
    return all(map(_is_movable, schema)) if isinstance(schema, list) else True


def result_of(service: Service, caller: Acting, run_id: str, schema: Mapping[str, Any] | None = None) -> CallToolResult:
    """Return the present state of a run as the result of a call, no larger than answers may be. Blocks.

    An output that does not fit ``schema``, the structured content's, is in the text alone: an agent's last answer and
    what a person gave in place of a tool may differ from what was declared, and clients refuse the whole result then.

    Raises:
        RunUnknown: there is no such run, or the caller does not see it.
    """
    return fitted(_whole(service, caller, run_id, schema), service.max_answer_bytes)


def _whole(service: Service, caller: Acting, run_id: str, schema: Mapping[str, Any] | None) -> CallToolResult:
    run = service.journal.readers.runs.get(caller.principal, run_id)
    status = run["status"]
    state: dict[str, Any] = {"status": status, "run_id": run_id, "thread_id": run["thread_id"]}
    if "trace_id" in run:  # of a run that an earlier release started there is none
        state["trace_id"] = run["trace_id"]
    state["status_url"] = f"{caller.url}/v1/runs/{run_id}" if caller.url is not None else f"{RUNS}{run_id}"
    if status == RunStatus.SUCCEEDED:
        output = run.get("output")
        whole = state | {"output": output}
        is_fit = schema is None or not schema_errors(schema, whole)
        return result(whole if is_fit else state | {"reason": UNFIT}, _text(output))
    if status in TERMINAL:
        return _failed(service, state, run)
    return _open(caller, state, run)


def _failed(service: Service, state: Mapping[str, Any], run: Mapping[str, Any]) -> CallToolResult:
    failed = run["status"] == RunStatus.FAILED
    error = service.journal.readers.runs.last_error(run["run_id"]) if failed else None
    code = name_of(error.code) if error is not None else run.get("reason") or run["status"]
    sentence = error.message if error is not None else f"The run ended as {run['status']}: {code}."
    return result({**state, "code": code, "error": sentence}, f"{sentence} [{code}]", is_error=True)


def _open(caller: Acting, state: Mapping[str, Any], run: Mapping[str, Any]) -> CallToolResult:
    run_id = run["run_id"]
    questions = run.get("approvals") or []
    if not questions:
        how = f"Call run_status with run_id {run_id} for its result, run_events for its events, cancel_run to stop it."
        waits = {"reason": run["detail"]} if run.get("detail") else {}
        return result({**state, **waits, "next": how}, f"The run {run_id} is {run['status']}. {how}")
    first = questions[0]
    page = f"on the page {caller.url} or " if caller.url is not None else "on Callboard's page or "
    how = (
        f"A person answers {page}with `./callboard approve {run_id}`. Then call run_status with run_id {run_id} and "
        "wait_s for the result."
    )
    facts = {"code": APPROVAL_REQUIRED, "approval_id": first["approval_id"], "reason": first["reason"], "next": how}
    return result({**state, **facts}, f"Not done yet: {first['reason']} {how} [{APPROVAL_REQUIRED}]")


def with_refusal(call_result: CallToolResult, refusals: Mapping[str, str]) -> CallToolResult:
    """Return the state of a run with why the answer to its open question was not taken, by the question's id."""
    state = call_result.structured_content or {}
    refusal = refusals.get(state.get("approval_id", ""))
    if refusal is None:
        return call_result
    text = "".join(part.text for part in call_result.content if isinstance(part, TextContent))
    return result({**state, "error": refusal}, f"{refusal} {text}")


def with_seed_names(call_result: CallToolResult) -> CallToolResult:
    """Return the state of a workflow's run with the names of the capability design, too."""
    state = dict(call_result.structured_content or {})
    names = {"workflowId": state["run_id"], "runId": state["run_id"], "statusUrl": state["status_url"]}
    return call_result.model_copy(update={"structured_content": state | names})


def refused(code: str, sentence: str, problems: list[str] | None = None) -> CallToolResult:
    """Return the result of a call that did not become a run; ``problems`` are what the arguments' validator found."""
    state: dict[str, Any] = {"status": REFUSED, "code": code, "error": sentence, "trace_id": current_trace_id()}
    state |= {"errors": problems} if problems is not None else {}
    return result(state, f"{sentence} [{code}]", is_error=True)


def result(state: Mapping[str, Any], text: str, *, is_error: bool = False) -> CallToolResult:
    """Return a result whose text is for the model and whose structured content is the state."""
    content = [TextContent(type="text", text=text)]
    return CallToolResult(content=list(content), structured_content=dict(state), is_error=is_error)


def _text(output: Any) -> str:
    if isinstance(output, str):
        return output
    return "" if output is None else orjson.dumps(output).decode()
