"""A recording: a run in one JSON file, which is data and never code, with digests that show an edit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bus.journal.forks.errors import RECORDING_INVALID
from config.ids import canonical_digest
from config.redaction.redacted_data import without_secrets

FORMAT, VERSION = "callboard.recording", 1
MAX_BYTES = 64 * 1024 * 1024
"""Largest file that is written or read."""
AGAIN = "export the run again: `./callboard runs export RUN -o FILE`"
_LISTS = ("before", "answers", "outcomes")
"""The parts of which each entry has a digest of its own."""


class RecordingPart(BaseModel):
    """A part of a recording; a field that this version does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RecordedMessage(RecordingPart):
    """A message of the thread before the run."""

    id: str
    role: str
    turn: int
    number: int
    partial: bool
    data: dict[str, Any]


class RecordedCall(RecordingPart):
    """A call of a tool as the model wrote it."""

    id: str
    name: str
    arguments_text: str


class RecordedAnswer(RecordingPart):
    """What a model was asked, and what it answered."""

    request: dict[str, Any]
    """``messages``, ``tools``, ``tool_choice``, ``params``, ``response_format``: those that are not as in the request
    before, and ``same_messages``: how many of its messages come first."""
    exact: bool
    """Whether the journal's digest confirms it; else it is what would be sent when the run was exported."""
    text: str
    reasoning: str
    calls: list[RecordedCall]
    finish_reason: str | None
    is_whole: bool
    """False where the run ended before the answer did."""


class RecordedResult(RecordingPart):
    """How a call of a tool ended."""

    call_id: str
    name: str
    outcome: Literal["done", "failed", "refused", "cancelled", "unknown"]
    result: Any
    edited: dict[str, Any] | None
    """The arguments as a person changed them."""


class Source(RecordingPart):
    """The run that was exported."""

    run_id: str
    agent: str
    model: str
    status: str
    reason: str | None


class RecordedFacts(RecordingPart):
    """What a summary has besides its text; see ``agents.memory.record.facts_of``."""

    pinned: dict[str, str]
    calls: list[str]
    left_out: int | None = None


class RecordedSummary(RecordingPart):
    """A summary of the messages before those of the recording."""

    id: str
    from_number: int
    upto: tuple[int, int]
    """The turn and the number of the last message that it replaces."""
    text: str
    facts: RecordedFacts


class Recording(RecordingPart):
    """A run with all that a replay needs."""

    run: Source
    definition: dict[str, Any]
    roles: list[str]
    """Those of the run's principal."""
    labels: list[str]
    """What the run, and its thread before it, had read."""
    input: str
    before: list[RecordedMessage]
    """The conversation that the run continued."""
    summary: RecordedSummary | None
    """Of the messages before those."""
    answers: list[RecordedAnswer] = Field(min_length=1)
    outcomes: list[RecordedResult]
    output: Any


def written(recording: Recording) -> bytes:
    """Return the file of a recording, without the secrets that this process knows.

    Raises:
        RECORDING_INVALID: it is too large.
    """
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    content |= without_secrets(recording.model_dump())
    content["digests"] = {name: canonical_digest(part) for name, part in _parts(content)}
    content["digest"] = canonical_digest(content["digests"])
    text = orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    _require_small(len(text), "the recording")
    return text


def read_recording(path: str | Path) -> Recording:
    """Return the recording of a file.

    Raises:
        RECORDING_INVALID: it is none, was edited, is of a newer version, or is too large.
        OSError: it cannot be read.
    """
    file = Path(path)
    content = _content(file)
    version = content.get("version")
    if version != VERSION:
        raise RECORDING_INVALID(
            f"'{file}' is a recording of version {str(version)[:20]}, and this Callboard reads version {VERSION}; "
            f"update Callboard, or {AGAIN}, with this one."
        )
    if changed := _edited(content):
        raise RECORDING_INVALID(
            f"'{file}' was edited: {', '.join(changed[:5])} "
            f"{'does' if len(changed) == 1 else 'do'} not have the digest that was exported. To change what is "
            f"replayed, script the model in the test; else {AGAIN}."
        )
    try:
        return Recording.model_validate({name: content[name] for name in content if name not in _HEAD})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RECORDING_INVALID(f"'{file}' cannot be used: `{where}`: {first['msg']}; {AGAIN}.") from error


def _content(file: Path) -> dict[str, Any]:
    """Return the JSON of a file that says of itself that it is a recording."""
    _require_small(file.stat().st_size, f"'{file}'")
    try:
        content = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise RECORDING_INVALID(f"'{file}' is not JSON ({error}), so it is no recording; {AGAIN}.") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RECORDING_INVALID(f'\'{file}\' is JSON without `"format": "{FORMAT}"`, so it is no recording; {AGAIN}.')
    return content


_HEAD = ("format", "version", "digests", "digest")


def _require_small(size: int, what: str) -> None:
    if size > MAX_BYTES:
        raise RECORDING_INVALID(
            f"{what} has {size:,} bytes and the limit is {MAX_BYTES:,}; export a shorter run of the agent."
        )


def _parts(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts that have a digest, with their names."""
    for name, value in content.items():
        if name in _LISTS and isinstance(value, list):
            yield from ((f"{name}[{index}]", entry) for index, entry in enumerate(value))
        elif name not in ("digests", "digest"):
            yield name, value


def _edited(content: Mapping[str, Any]) -> list[str]:
    """Return the names of the parts that are not as they were exported."""
    digests = content.get("digests")
    if not isinstance(digests, dict) or canonical_digest(digests) != content.get("digest"):
        return ["`digests`"]
    parts = dict(_parts(content))
    now = {name: canonical_digest(part) for name, part in parts.items()}
    return [f"`{name}`" for name in {**digests, **now} if digests.get(name) != now.get(name)]


# --- requests


def as_compared(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a recording keeps of a request and a replay compares: as JSON, without secrets.

    Signatures of a provider's thinking are left out: only that provider can make them.
    """
    kept = {name: request.get(name) for name in ("messages", "tools", "tool_choice", "params", "response_format")}
    kept["messages"] = [
        {name: value for name, value in message.items() if name != "thinking_blocks"} for message in request["messages"]
    ]
    plain: dict[str, Any] = without_secrets(orjson.loads(orjson.dumps(kept)))
    return plain


def changes_of(request: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a request differs from the one before, which has most of its messages."""
    messages, earlier = request["messages"], before.get("messages", [])
    same = common_length(messages, earlier)
    changed = {name: value for name, value in request.items() if name not in before or before[name] != value}
    return changed | {"same_messages": same, "messages": messages[same:]}


def common_length(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return how many elements at the beginning of both are equal."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((number for number, pair in pairs if pair[0] != pair[1]), min(len(first), len(second)))


def requests_of(recording: Recording) -> list[dict[str, Any]]:
    """Return the requests of a recording in full.

    Raises:
        RECORDING_INVALID: a request has no list of messages.
    """
    requests: list[dict[str, Any]] = []
    whole: dict[str, Any] = {"messages": []}
    for answer in recording.answers:
        changed = dict(answer.request)
        same, messages = changed.pop("same_messages", None), changed.get("messages")
        if not isinstance(same, int) or not isinstance(messages, list):
            raise RECORDING_INVALID(f"a request of the recording has no messages; {AGAIN}.")
        whole = whole | changed | {"messages": [*whole["messages"][:same], *messages]}
        requests.append(whole)
    return requests
