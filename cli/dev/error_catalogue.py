"""The catalogue of all errors: what each means, what to do, and what follows for clients.

``python -m cli.dev.error_catalogue`` writes docs/errors.md from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module

from config.errors import CallboardError, ErrorKind, ErrorRow, Topic
from config.folders import ROOT

PAGE = ROOT / "docs" / "errors.md"
MODULES = tuple(
    """
    agents.tools.isolation.errors agents.errors agents.governance.engine.errors agents.governance.policy.errors
    agents.models.errors bus.errors bus.journal.errors bus.journal.forks.errors bus.journal.tailing.errors
    bus.messages.message cli.supervisor.serving
    cli.supervisor.supervisor config.database.errors config.definitions.errors config.egress.errors config.errors
    agents.governance.guardrails.errors bus.sealing bus.identity.errors config.identity.folders
    config.redis.errors observers.channels.errors observers.traces.errors web.errors web.oidc.errors
    """.split()
)
"""The modules with errors; a test compares them with the sources."""
HEAD = """# Errors

`python -m cli.dev.error_catalogue` writes this page from the declarations of the errors; a test compares them.

Every error has a stable code, and a sentence that says what is wrong and what to do. The terminal prints both, HTTP
answers `application/problem+json` with them ([http.md](http.md)), and a run's `error` event and `reason` contain them.
Programs should use the code, never the text. Errors of the machine, the database and the settings have a general
sentence over HTTP, without addresses, folders and the words of a driver; the terminal and the log of the web process
have the details.

*Status* is the HTTP status; a dash means that no request is refused with this code. `POST /process`, which waits for a
run, answers 502 with the code of the run's error.

*Retryable* says that the same request may succeed later, unchanged; for some errors only after an administrator has
acted. A problem has it as `retryable`, and says in the header `Retry-After` when to try again. Errors with the status
408, 429, 503 or 507 always are retryable. For a run's error it says that a new run may succeed.
"""
TAIL = """`callboard_error` is the code of the base class of all errors; it is never raised."""
INTRODUCTIONS = {
    Topic.RUN: "These are `error` events; the last one is the run's `reason`.",
    Topic.CALL: "A tool's error is the result of its call, and the run continues. A run of kind `tool`, which makes "
    "one call without a model, ends with it; the status is that of a request that is refused for it before the tool is "
    "called.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorEntry:
    """What is said of an error in general."""

    code: str
    topic: Topic
    status: int | None
    """The HTTP status; None: no request is refused with it."""
    retryable: bool
    """Whether the same request may succeed later, unchanged."""
    meaning: str
    """One sentence or two, as Markdown."""
    remedy: str
    """What to do about it, as Markdown."""
    seed_name: str | None
    """Its name in one of the designs which Callboard grew from."""


Columns = Mapping[str, Callable[[ErrorEntry], str]]
USUAL: Columns = {
    "code": lambda entry: f"`{entry.code}`",
    "status": lambda entry: "–" if entry.status is None else str(entry.status),
    "retryable": lambda entry: "yes" if entry.retryable else "",
    "meaning": lambda entry: entry.meaning,
    "remedy": lambda entry: entry.remedy,
}
OTHER_COLUMNS: Mapping[Topic, Columns] = {
    Topic.RUN: {
        "code": USUAL["code"],
        "retryable": USUAL["retryable"],
        "meaning": USUAL["meaning"],
        "what happens, and what to do": USUAL["remedy"],
    },
    Topic.CALL: {
        "code": USUAL["code"],
        "status": USUAL["status"],
        "meaning": USUAL["meaning"],
        "remedy": USUAL["remedy"],
    },
}
SEED = """## Names of the capability design

One of the [designs](decisions/0007-names-kept-technologies-replaced.md) which Callboard grew from has names for errors
of its tools. What stands for them; clients of the [MCP server](mcp.md#names-of-the-capability-design) get the names
themselves:"""
NO_ERROR: Mapping[str, str] = {
    "APPROVAL_REQUIRED": "No error: the run waits with the reason `approval` until a person answers "
    "([approvals](approvals.md)); `POST /execute` answers 202 with the code `approval_required`.",
    "GoldenContext not set in workflow memo": "`golden_context_missing`, whose sentence begins so: the call is "
    "blocked ([contexts](contexts.md#runs-without-contexts)).",
    "SecurityContext not set in workflow memo": "`security_context_missing`, whose sentence begins so: the run fails.",
}
"""What stands for a name of that design which is no error's code."""


def catalogue() -> dict[str, ErrorEntry]:
    """Return the entry of every error by its code, in the order of the codes."""
    kinds = sorted(error_kinds(), key=lambda kind: kind.code)
    return {kind.code: _entry(kind) for kind in kinds}


def error_kinds() -> Iterator[ErrorKind]:
    """Yield the class or the row of every code; a class without a code of its own has its parent's."""
    rows: set[int] = set()
    for name in MODULES:
        for kind in vars(import_module(name)).values():
            if isinstance(kind, ErrorRow):
                if id(kind) not in rows:  # another module may import it
                    yield kind
                rows.add(id(kind))
                continue
            is_error = isinstance(kind, type) and issubclass(kind, CallboardError) and kind.__module__ == name
            if is_error and kind is not CallboardError and "code" in vars(kind):
                yield kind


def _entry(kind: ErrorKind) -> ErrorEntry:
    return ErrorEntry(
        code=kind.code,
        topic=kind.topic,
        status=kind.status if kind.over_http else None,
        retryable=kind.retryable,
        meaning=(kind.meaning if isinstance(kind, ErrorRow) else _first_paragraph(kind)).replace("``", "`"),
        remedy=kind.remedy,
        seed_name=kind.seed_name,
    )


def _first_paragraph(kind: type[CallboardError]) -> str:
    return " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].split())


def document() -> str:
    entries = [*catalogue().values()]
    return "\n".join(
        [HEAD, *(line for topic in Topic for line in _section(topic, entries)), *_names(entries), "", TAIL, ""]
    )


def _section(topic: Topic, entries: list[ErrorEntry]) -> list[str]:
    columns = OTHER_COLUMNS.get(topic, USUAL)
    rows = [[cell(entry) for cell in columns.values()] for entry in entries if entry.topic is topic]
    introduction = [INTRODUCTIONS[topic], ""] if topic in INTRODUCTIONS else []
    return [f"## {topic}", "", *introduction, *_table([*columns], rows), ""]


def _names(entries: list[ErrorEntry]) -> list[str]:
    here = dict(NO_ERROR)
    for entry in entries:
        if entry.seed_name is not None:
            here[entry.seed_name] = (
                f"{here[entry.seed_name]}, `{entry.code}`" if entry.seed_name in here else f"`{entry.code}`"
            )
    return [SEED, "", *_table(["there", "here"], [[f"`{name}`", here[name]] for name in sorted(here)])]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [_line(head), _line(["---"] * len(head)), *map(_line, rows)]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(document())
