"""Every error Callboard raises: named after what is wrong, with a stable code and a remedy.

Whose problem it is follows from the type (``Retryable``, ``Permanent``, ``ModelVisible``), never
from reading the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar


class CallboardError(Exception):
    """Something Callboard can name; its text is a sentence with the remedy."""

    code: ClassVar[str] = "callboard_error"
    """Stable across releases; clients and tests decide by it."""
    status: ClassVar[int] = 500
    """The HTTP status a door answers with."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    @property
    def public(self) -> str:
        """The sentence for a client that may not know what else there is: without paths and lists."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[CallboardError], args: tuple[Any, ...], state: dict[str, Any]) -> CallboardError:
    """Unpickle without calling the subclass's own constructor, whose arguments differ."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class Retryable(CallboardError):
    """Trying again later may work."""

    status = 503


class Permanent(CallboardError):
    """Trying again changes nothing; somebody has to change something first."""

    status = 400


class ModelVisible(CallboardError):
    """The model is told, so that it can adapt."""


LONGEST_NAME = 80
"""Characters; who typed more was not after a name."""
MOST_EDITS = 3


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name ``word`` is a slip of the keyboard from, or None: one edit in three characters is near."""
    if len(word) > LONGEST_NAME:
        return None
    alike = (name for name in known if abs(len(name) - len(word)) <= MOST_EDITS)
    found = [(_edits(word.lower(), name.lower()), name) for name in alike]
    edits, name = min(found, default=(LONGEST_NAME, ""))
    return name if edits <= min(MOST_EDITS, max(1, len(name) // 3)) and edits < len(word) else None


def _edits(word: str, name: str) -> int:
    """Return how many characters have to be added, left out, changed or swapped with the next (Damerau-Levenshtein)."""
    before: list[int] = []
    row = list(range(len(name) + 1))
    for i, mine in enumerate(word):
        older, before, row = before, row, [i + 1]
        for j, theirs in enumerate(name):
            row.append(min(before[j + 1] + 1, row[j] + 1, before[j] + (mine != theirs)))
            if i and j and mine == name[j - 1] and word[i - 1] == theirs:
                row[-1] = min(row[-1], older[j - 1] + 1)
    return row[-1]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` with a leading blank, or nothing."""
    match = nearest(word, known)
    return f" Did you mean '{match}'?" if match else ""


# --- what the caller sent -------------------------------------------------------------------------


class BadRequest(Permanent):
    code = "bad_request"


class InputEmpty(Permanent):
    code = "input_empty"

    def __init__(self) -> None:
        super().__init__("the input is empty; send a sentence for the agent to work on.")


class InputTooLarge(Permanent):
    code = "input_too_large"
    status = 413

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the input has {size:,} characters and the limit is {limit:,}; put long material in a file "
            "the agent can read, and name the file.",
            size=size,
            limit=limit,
        )


class AgentUnknown(Permanent):
    code = "agent_unknown"
    status = 404

    def __init__(self, agent_id: str, known: Iterable[str], folder: str = "config/agents") -> None:
        names = sorted(known)
        listing = ", ".join(f"'{n}'" for n in names) or "none"
        meant = did_you_mean(agent_id[:80], names)
        super().__init__(
            f"agent '{agent_id[:80]}' is not configured; known agents: {listing}."
            f"{meant} {'Or add' if meant else 'Add'} {folder}/{agent_id[:80]}.yaml.",
            agent_id=agent_id,
            known=names,
        )

    @property
    def public(self) -> str:
        return f"agent '{self.facts['agent_id'][:80]}' is not configured; GET /v1/agents lists those that are."


class RunUnknown(Permanent):
    code = "run_unknown"
    status = 404

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run '{run_id[:80]}'; `./callboard runs` lists the runs.", run_id=run_id)


class ThreadUnknown(Permanent):
    code = "thread_unknown"
    status = 404

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"there is no thread '{thread_id[:80]}'; `./callboard threads` lists the threads.", thread_id=thread_id
        )


class RunOpen(Permanent):
    """What has not ended cannot be removed."""

    code = "run_open"
    status = 409

    def __init__(self, run_id: str, status: str, thread_id: str | None = None) -> None:
        what = f"thread '{thread_id[:80]}' has a run that is {status}" if thread_id else f"run '{run_id}' is {status}"
        super().__init__(
            f"{what}; stop it first (`./callboard cancel {run_id}`), then remove it. Nothing was removed.",
            run_id=run_id,
            thread_id=thread_id,
        )


class CursorInvalid(Permanent):
    code = "cursor_invalid"

    def __init__(self, cursor: str) -> None:
        super().__init__(
            f"'{cursor[:40]}' is not a cursor; send back the id of the last event you saw, or leave it out "
            "to read from the beginning.",
            cursor=cursor[:200],
        )


class CursorAhead(Permanent):
    code = "cursor_ahead"
    status = 409

    def __init__(self, cursor: int, last: int) -> None:
        super().__init__(
            f"cursor {cursor} is beyond the last event of this run, {last}; read again from {last} or earlier.",
            cursor=cursor,
            last=last,
        )


class IdempotencyConflict(Permanent):
    code = "idempotency_conflict"
    status = 409

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the idempotency key '{key[:80]}' was used with another body; send the same body again, or a new key.",
            key=key,
        )


class GrantRefused(Permanent):
    code = "grant_refused"
    status = 403

    def __init__(self) -> None:
        super().__init__("privilege grants are not available yet, so none can be verified; start the run without one.")


class ObserverTravels(Permanent):
    code = "observer_travels"

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(
            f"observer objects cannot travel to a worker ({', '.join(names)}); name them in the agent's "
            "`observers:` instead, or run synchronously."
        )


class HostRefused(Permanent):
    """A page of somebody else's may have pointed its name at us (DNS rebinding)."""

    code = "host_refused"
    status = 403

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the host '{host[:80]}' is not one this server answers to; use 127.0.0.1 or localhost, or name it in "
            "CALLBOARD_ALLOWED_HOSTS (read together with --no-auth).",
            host=host[:80],
        )


class OriginRefused(Permanent):
    code = "origin_refused"
    status = 403

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"requests from pages of '{origin[:80]}' are not answered; open Callboard's own page instead.",
            origin=origin[:80],
        )


class MediaTypeRefused(Permanent):
    code = "media_type_refused"
    status = 415

    def __init__(self, found: str) -> None:
        super().__init__(
            f"the body is '{found[:80] or 'of no type'}'; send JSON, with the header Content-Type: application/json."
        )


class Overloaded(Retryable):
    """This process has as many clients of a kind as it can bear."""

    code = "overloaded"


class LoopBlocked(Permanent):
    code = "loop_blocked"
    status = 500

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} would block the event loop it was called on; call it from a plain thread.")


class OpenedBeforeFork(Permanent):
    code = "opened_before_fork"
    status = 500

    def __init__(self, opened_by: int) -> None:
        super().__init__(
            f"this was opened by process {opened_by}, and a process forked from it has none of its threads, so nothing "
            "would ever answer; call Runner.open() in this process and take the handle from there."
        )


# --- configuration --------------------------------------------------------------------------------


class SettingInvalid(Permanent):
    code = "setting_invalid"


class DefinitionInvalid(Permanent):
    """An agent's YAML cannot be used; says file, line, field and remedy."""

    code = "definition_invalid"
    status = 422

    def __init__(self, file: str, line: int | None, field: str | None, problem: str) -> None:
        file = file.encode("utf-8", "backslashreplace").decode()  # a file's name may be no text
        where = file if line is None else f"{file}:{line}"
        what = f" {field}:" if field else ""
        super().__init__(f"{where}:{what} {problem}", file=file, line=line, field=field)


class ToolUnknown(Permanent):
    code = "tool_unknown"


class PluginUnknown(Permanent):
    code = "plugin_unknown"


class ModelUnknown(Permanent):
    code = "model_unknown"


class ModelKeyMissing(Permanent):
    code = "model_key_missing"


class RoomTaken(Permanent):
    """A stranger answers to the name of one of our rooms."""

    code = "room_taken"
    status = 500


class PoolRefused(Permanent):
    code = "pool_refused"


class ReleaseRefused(Permanent):
    """An installed library is known to be malicious, and is not imported."""

    code = "release_refused"
    status = 500


# --- the machine ----------------------------------------------------------------------------------


class StateDirUnwritable(Permanent):
    code = "state_dir_unwritable"
    status = 500


class StateDirExposed(Permanent):
    """Other users of this machine could read what the state folder keeps, or have it written elsewhere."""

    code = "state_dir_exposed"
    status = 500


class BackupFailed(Permanent):
    """No copy of the database was made; what was there before is as it was."""

    code = "backup_failed"
    status = 500


class BackupExists(Permanent):
    """The file to write is there already."""

    code = "backup_exists"
    status = 409


class PortInUse(Permanent):
    code = "port_in_use"
    status = 500


class SchemaOld(Permanent):
    code = "schema_old"
    status = 503

    def __init__(self, found: str | None, wanted: str) -> None:
        super().__init__(
            f"the database's schema is {found or 'missing'} and this code needs {wanted}; run `./callboard migrate`.",
            found=found,
            wanted=wanted,
        )


class SchemaNew(Permanent):
    code = "schema_new"
    status = 503

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(
            f"the database's schema {found} is newer than this code knows ({wanted}); update the code on this machine.",
            found=found,
            wanted=wanted,
        )


class RedisUnreachable(Retryable):
    code = "redis_unreachable"


class RedisRefused(Permanent):
    """Redis answers, but is configured in a way that loses work."""

    code = "redis_refused"
    status = 503


class BrokerMissing(Retryable):
    """No broker is configured, so no worker can be told."""

    code = "broker_missing"


class DatabaseUnreachable(Retryable):
    code = "database_unreachable"


class DatabaseBusy(Retryable):
    code = "database_busy"


class DatabaseFull(Retryable):
    """What the caller sent cannot be kept until somebody makes room; nothing was changed."""

    code = "database_full"
    status = 507


class DatabaseReadOnly(Retryable):
    """The database answers and takes nothing new; nothing was changed."""

    code = "database_read_only"


class DatabaseDamaged(Permanent):
    """The database's file or its server's data are broken; somebody has to restore them."""

    code = "database_damaged"
    status = 503


# --- a run ----------------------------------------------------------------------------------------


class StaleOwner(Permanent):
    """Another worker owns the run now; stop writing."""

    code = "stale_owner"

    def __init__(self, run_id: str, fence: int) -> None:
        super().__init__(
            f"run {run_id} is no longer owned under fence {fence}; nothing was written.", run_id=run_id, fence=fence
        )


class RunStopped(Permanent):
    """Somebody asked this run to stop."""

    code = "cancelled"


class OutcomeUnknown(Permanent):
    """An unsafe tool call was cut off, and the agent is configured to fail then."""

    code = "outcome_unknown"
    status = 502


class CodeVersion(Permanent):
    """The run's journal does not fit this code or the tools here; it waits for a worker it fits."""

    code = "code_version"
    status = 503


class RunCrashed(Permanent):
    """Its owners died one after another, so it is not tried again."""

    code = "crashed"
    status = 502

    def __init__(self, crashes: int, during: str) -> None:
        super().__init__(
            f"{crashes} workers were lost while they worked on this run (at work: {during}), so it is not tried "
            "again. Find out what that does to a worker's process, then start a new run."
        )


class ApprovalExpired(Permanent):
    code = "approval_expired"
    status = 410

    def __init__(self) -> None:
        super().__init__("nobody answered in time what this run asked, so it ended; start a new run.")


class ApprovalUnknown(Permanent):
    code = "approval_unknown"
    status = 404

    def __init__(self, approval_id: str) -> None:
        super().__init__(
            f"this run asks nothing with the id '{approval_id[:80]}'; look at what it waits for and answer that.",
            approval_id=approval_id[:80],
        )


class ApprovalDecided(Permanent):
    """Somebody was quicker; the decision that won is among the facts."""

    code = "approval_decided"
    status = 409

    def __init__(self, approval_id: str, decision: str, by: str) -> None:
        super().__init__(
            f"this was decided already: {decision}, by {by}; nothing was changed.",
            approval_id=approval_id, decision=decision, by=by,
        )  # fmt: skip


class ApprovalOver(Permanent):
    """The run does not wait for this any more: it ended or is being stopped, or the time for an answer is over."""

    code = "approval_over"
    status = 409


class DecisionRefused(Permanent):
    code = "decision_refused"

    def __init__(self, decision: str, offered: Iterable[str]) -> None:
        choices = ", ".join(offered)
        super().__init__(f"'{decision[:40]}' is not among the answers to this; give one of: {choices}.")


class ModelFailed(Retryable):
    """The provider failed in a way that may pass; ``retry_after_s`` is what it asked us to wait."""

    code = "model_failed"
    status = 502

    def __init__(self, message: str, *, retry_after_s: float | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.retry_after_s = retry_after_s


class ModelTimeout(Retryable):
    code = "model_timeout"
    status = 504


class ModelRefused(Permanent):
    """The provider answered that this request will never work (4xx)."""

    code = "model_refused"
    status = 502


class OutputInvalid(Permanent):
    """The answer does not fit the agent's output schema, also after one repair."""

    code = "output_invalid"
    status = 502


class ArgumentsInvalid(ModelVisible):
    code = "arguments_invalid"


class ToolFailed(ModelVisible):
    code = "tool_failed"


class ToolTimeout(ModelVisible):
    code = "tool_timeout"


class ToolCutOff(ModelVisible):
    """The tool's connection broke after it may have done what it was asked to."""

    code = "tool_cut_off"


class PathRefused(ModelVisible):
    """A path leads out of the sandbox, or is not a plain file beneath it."""

    code = "path_refused"
