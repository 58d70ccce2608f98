"""What a lab repeats, and what each process of a repetition is given and hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bus.journal.clients import IfBusy
from bus.journal.readers import RunRecord, SummaryRecord
from cli.crashlab.places import Passed
from config.settings import Settings


class Reply(NamedTuple):
    """A message that a person sends while the run is open."""

    content: str
    if_busy: IfBusy
    afterwards: Callable[[], object] = lambda: None
    """What the person does when the run's owner has read it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The run that a lab repeats, with those that follow it in its thread."""

    agent_id: str
    objective: str
    call: tuple[str, Mapping[str, Any]] | None = None
    """The name and the arguments of the tool that a run of kind ``tool`` calls; None: it is an agent's."""
    workflow_input: Mapping[str, Any] | None = None
    """What a run of kind ``workflow`` is started with; None: it is an agent's."""
    signals: Mapping[str, Any] = field(default_factory=dict)
    """What a person gives a workflow that waits for a signal, by the names; with none, the run is stopped then."""
    is_detached: bool = False
    act_at: str | None = None
    """A person acts when the answer of the first run contains this."""
    reply: Reply | None = None
    """What the person sends then, or without ``act_at`` when the run asks; None: the run is stopped, or answered."""
    then: Sequence[str] = ()
    """Messages for the thread, each sent when the run before it has ended."""
    is_same_each_time: bool = False
    """Whether the model's answers are deterministic, so that whole conversations can be compared; of a run that a
    person stops only its end and the effects are."""
    trust_overrides: bool = False
    """Whether the agent's file may declare a tool safer than the tool does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One repetition, whichever processes execute it."""

    subject: Subject
    thread_id: str
    """The trial's own thread, by which every process finds its runs."""
    settings: Settings
    ledger: Path
    returned: Mapping[str, Any] = field(default_factory=dict)
    """Results of the undisturbed run's calls by ``call_name``, used to answer approvals."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptResult:
    """What a process that was not killed hands back."""

    records: Sequence[RunRecord]
    """Those of the thread's runs, by their turns."""
    descendants: Sequence[RunRecord] = ()
    """Those of their child runs, and of theirs."""
    summaries: Sequence[SummaryRecord] = ()
    """Those of the thread."""
    passed: Sequence[Passed] = ()
    """The places it passed, if it was watched."""
    recorded: frozenset[str] = frozenset()
    """The idempotency keys of steps that had ended before it started."""
    arrived_before: int = 0
    """Lines of the ledger before it started."""
