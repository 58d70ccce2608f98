"""Errors of runs and of the calls of tools."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from types import MappingProxyType

from config.errors import CallboardError, Internal, ModelVisible, Permanent, Topic
from config.text.names import did_you_mean

INPUT_EMPTY = Permanent.row(
    "input_empty",
    "The input is empty.",
    text="the input is empty; send a sentence for the agent to work on.",
    remedy="Send a message.",
)

INPUT_TOO_LARGE = Permanent.row(
    "input_too_large",
    "The input is longer than `CALLBOARD_MAX_INPUT_CHARS`.",
    status=413,
    text=(
        "the input has {size:,} characters and the limit is {limit:,}; put long material in a file the agent can read, "
        "and name the file."
    ),
    remedy="Put long material in a file the agent can read.",
)


INPUT_INVALID = Permanent.row(
    "input_invalid",
    "The input does not fit the workflow's `input` schema.",
    text="the input does not fit what '{workflow}' takes: {problems}. `./callboard workflows {workflow}` shows it.",
    remedy="`./callboard workflows ID`, or `GET /v1/workflows/ID`, shows the schema.",
)

WORKFLOW_MISSED = Permanent.row(
    "workflow_missed",
    "A workflow was named as an agent, or an agent as a workflow.",
    text="{problem}",
    remedy="Start a workflow with `workflow` and `input`, and an agent with `agent` and a message.",
)


EXPRESSION_FAILED = Permanent.row(
    "expression_failed",
    "A template or a condition of a workflow could not be evaluated.",
    topic=Topic.RUN,
    over_http=False,
    text="node '{node}': {problem}",
    remedy="The sentence names the node and the expression; mend the workflow's file, or the node before it.",
)

NO_BRANCH = Permanent.row(
    "no_branch",
    "No condition of a CHOICE holds, or its model chose none, and it has no edge for `default`.",
    topic=Topic.RUN,
    over_http=False,
    text="node '{node}' has chosen no branch, and has no edge with `source_handle: default`; add one.",
    remedy="Add an edge with `source_handle: default`.",
)

ITEMS_REFUSED = Permanent.row(
    "items_refused",
    "What a FOR_EACH, a FILTER or a REDUCE was given is no list, or it is too long.",
    topic=Topic.RUN,
    over_http=False,
    text="node '{node}' needs a list of at most {limit:,} items, and {problem}.",
    remedy="Give it a list; split a longer one over several runs.",
)

BLUEPRINT_REFUSED = Permanent.row(
    "blueprint_failed",
    "A blueprint's logic has failed, or has asked for what it may not have.",
    topic=Topic.RUN,
    over_http=False,
    text="the blueprint cannot continue: {problem}",
    remedy="The sentence says why; the worker's log has the traceback of a failed logic.",
)

NONDETERMINISTIC = Permanent.row(
    "nondeterministic_blueprint",
    "A resumed blueprint makes another call than the one that is recorded in its place.",
    topic=Topic.RUN,
    over_http=False,
    text="call {place} of the blueprint was {recorded}, and is {now} now; deploy code that makes the recorded calls.",
    remedy="Deploy the code with which the run began, or code that makes the same calls; or let the run fail.",
)

ITEMS_CHANGED = Permanent.row(
    "items_changed",
    "The list of a FOR_EACH is another one than when the node began.",
    topic=Topic.RUN,
    over_http=False,
    text="node '{node}' began with another list than it is given now; start the workflow again.",
    remedy="Start the workflow again; the results of the items that are done are in the run's steps.",
)

SIGNAL_UNKNOWN = Permanent.row(
    "signal_unknown",
    "No node of the run's workflow waits for a signal of that name.",
    status=404,
    text="no node of this run waits for the signal '{name:.80}'.{hint} Its signals: {known}.",
    remedy="`./callboard workflows ID` shows the signals of a workflow.",
)

SIGNAL_INVALID = Permanent.row(
    "signal_invalid",
    "The data of a signal do not fit what its node expects.",
    status=422,
    text="the data of the signal '{name:.80}' do not fit: {problems}.",
    remedy="Send data that fit the `schema` of the WAIT.",
)

SIGNAL_MISSED = Permanent.row(
    "signal_missed",
    "The signal that a WAIT waits for did not come within its `timeout_s`.",
    topic=Topic.RUN,
    over_http=False,
    text="node '{node}' waited {seconds:g} s for the signal '{signal}', and it did not come.",
    remedy="Send the signal in time, raise `timeout_s`, or draw an `error` edge.",
)


class AgentUnknown(Permanent):
    """No folder has an agent or a workflow with that id."""

    code = "agent_unknown"
    status = 404
    remedy = "Use the nearest name that the sentence suggests, or add the file."

    def __init__(self, agent_id: str, agent_ids: Iterable[str], folders: Iterable[str] = ()) -> None:
        names = sorted(agent_ids)
        listing, meant = ", ".join(f"'{n}'" for n in names) or "none", did_you_mean(agent_id[:80], names)
        places = folders or ("config/agents", "config/workflows")
        files = " or ".join(f"{place}/{agent_id[:80]}.yaml" for place in places)
        super().__init__(
            f"no agent or workflow is called '{agent_id[:80]}'; there are: {listing}."
            f"{meant} {'Or add' if meant else 'Add'} {files}.",
            agent_id=agent_id,
            known=names,
        )

    @property
    def public(self) -> str:
        name = self.facts["agent_id"][:80]
        return f"no agent or workflow is called '{name}'; GET /v1/agents and GET /v1/workflows list what there is."


OBSERVER_TRAVELS = Permanent.row(
    "observer_travels",
    "An observer object was given for a run that a worker executes.",
    remedy="Name it in the agent's `observers:`.",
)


def observer_travels(names: Iterable[str]) -> CallboardError:
    return OBSERVER_TRAVELS(
        f"observer objects cannot travel to a worker ({', '.join(names)}); name them in the agent's "
        "`observers:` instead, or run synchronously."
    )


OUTCOME_UNKNOWN = Permanent.row(
    "outcome_unknown",
    "An unsafe call was interrupted, its outcome is unknown, and the agent has `on_unknown: fail`.",
    status=502,
    topic=Topic.RUN,
    over_http=False,
    remedy="Check the other system, then start a new run.",
)

POLICY_REFUSED = Permanent.row(
    "policy_refused",
    "The policy does not let the run call its model, or ends the run because of a call.",
    status=403,
    topic=Topic.RUN,
    text="the policy's rule '{rule}' ends the run. {reason}",
    remedy="Read the rule that the sentence names; it, or the request, has to change.",
)

PROMPT_GUARD_FAILED = Permanent.row(
    "prompt_guard_failed",
    "The agent's prompt guard failed or was late, so the text did not pass: no answer to it was shown, and no further "
    "tool was called.",
    status=502,
    topic=Topic.RUN,
    over_http=False,
    text=(
        "the prompt guard of '{agent}' {problem}. So nothing of the answer is shown, and no further tool was called; "
        "send the message again, and if it fails again, mend the guard that the agent's file names."
    ),
    remedy=(
        "Send the message again; if it fails again, mend the guard, or its `timeout_s` "
        "([guardrails](guardrails.md#prompt-guard))."
    ),
)

SECURITY_CONTEXT_MISSING = Permanent.row(
    "security_context_missing",
    "The run was started without a record of its credential or its trace id, and the deployment requires both.",
    topic=Topic.RUN,
    over_http=False,
    text=(
        "SecurityContext not set in workflow memo: the run's row has no credential or no trace id. Start the run "
        "again, or allow such runs by CALLBOARD_REQUIRE_CONTEXTS=false."
    ),
    remedy="An earlier release, or another program, has started the run; start it again ([contexts](contexts.md)).",
)


class OutputInvalid(Permanent):
    """The answer does not fit the schema."""

    code = "output_invalid"
    status = 502
    topic = Topic.RUN
    over_http = False
    remedy = "One repair, then the run fails; a simpler schema or another model may help."


def run_failed() -> Internal:
    """Return the error of a run that met an unexpected exception; the worker's log has the traceback."""
    return Internal("the run failed with an unexpected error; the worker's log has the details.")


TOO_MANY_QUESTIONS = Permanent.row(
    "too_many_questions",
    "The runs of the principal have asked persons as many questions as they may within an hour.",
    topic=Topic.RUN,
    over_http=False,
    text=(
        "the runs of '{principal}' have asked {asked} questions within an hour and may ask {limit}. Start a new run "
        "later, or let an approval hold for later calls."
    ),
    remedy="Start a new run later. The limit is `CALLBOARD_QUESTIONS_PER_HOUR`.",
)

# --- the calls of tools


MAX_LISTED = 20
"""Most names in a sentence, which the model reads too."""


class ArgumentsInvalid(ModelVisible):
    """The arguments are not JSON or do not fit the schema; the function was not called."""

    code = "arguments_invalid"
    status = 422
    over_http = True
    seed_name = "INPUT_VALIDATION_FAILED"
    remedy = "The model corrects what the sentence names, and calls again."


TOOL_NOT_OFFERED = ModelVisible.row(
    "tool_not_offered",
    "The agent has no tool of this name.",
    status=404,
    over_http=True,
    remedy="Use a name that `./callboard tools` lists for the agent.",
)


def tool_not_offered(name: str, offered_names: Iterable[str]) -> ModelVisible:
    names = list(offered_names)
    listing = ", ".join(names[:MAX_LISTED]) or "none"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return TOOL_NOT_OFFERED(
        f"There is no tool '{name}'.{did_you_mean(name, names)} The agent's tools: {listing}{more}.", name=name
    )


ROLE_MISSING = ModelVisible.row(
    "role_missing",
    "The tool may be called by principals with certain roles only, and the run's has none of them.",
    status=403,
    over_http=True,
    seed_name="UNAUTHORIZED",
    remedy="A principal with one of the roles that the sentence names may call it.",
)


def role_missing(name: str, needed: Iterable[str]) -> ModelVisible:
    roles = ", ".join(sorted(needed))
    return ROLE_MISSING(f"Not done: '{name}' may be called by principals with the role {roles} only.", name=name)


GOLDEN_CONTEXT_MISSING = ModelVisible.row(
    "golden_context_missing",
    (
        "The run was started without a context that says for which application and environment it works, and "
        "the deployment requires one, or what its row has is none. The tool was not called."
    ),
    status=403,
    over_http=True,
    text=(
        "GoldenContext not set in workflow memo: the run's row has no context, so '{name}' was not called. Start the "
        "run again."
    ),
    remedy="An earlier release, or another program, has started the run; start it again ([contexts](contexts.md)).",
)

HANDOVER_REFUSED = ModelVisible.row(
    "handover_refused",
    "The run was not handed over: there is no such agent, the run's principal may not start it, or the agent waits "
    "above this run.",
    status=403,
    remedy="Hand over to an agent that the sentence lists, in a call of its own; `access:` says who may start one.",
)

CALL_BLOCKED = ModelVisible.row(
    "call_blocked",
    "The policy blocks the call; the tool was not called.",
    status=403,
    over_http=True,
    remedy="Read the rule that the sentence names; it, or the call, has to change.",
)

CALL_REJECTED = ModelVisible.row(
    "call_rejected",
    "A person rejected the call; the tool was not called.",
    status=403,
    over_http=True,
    remedy="Ask the person, or make another call.",
)


class ToolTimeout(ModelVisible):
    """The tool did not return in time and was abandoned."""

    code = "tool_timeout"
    remedy = "Allow more time by the tool's `timeout_s` or the agent's `timeouts.tool_s`, or make the tool faster."


SANDBOX_FULL = ModelVisible.row(
    "sandbox_full",
    "The file would exceed the quota of the sandbox, in bytes or in files.",
    remedy="The model removes files or writes less.",
)


STORAGE_FULL = ModelVisible.row(
    "storage_full",
    "The disk of the worker's state folder has no space or no inodes left, or cannot be written; nothing was changed "
    "there.",
    remedy="Make room on the disk of the state folder, or make it writable; the sentence says what it lacks.",
)
STORAGE_PROBLEMS = MappingProxyType(
    {
        errno.ENOSPC: "its disk has no space, or no inodes, left",
        errno.EDQUOT: "the quota of its disk is used up",
        errno.EROFS: "its disk is read-only",
    }
)
"""The system's numbers of errors that mean it, in words."""


def storage_full(problem: str, error: OSError) -> ModelVisible:
    number = error.errno or 0
    reason = STORAGE_PROBLEMS.get(number, os.strerror(number).lower())
    return STORAGE_FULL(f"{problem}: {reason}. The operator of the worker has to mend that.", reason=reason)


class PathRefused(ModelVisible):
    """A path is outside of the sandbox, or names no plain file in it."""

    code = "path_refused"
    remedy = "The model names a plain file in the sandbox."


class OutputUnfit(ModelVisible):
    """The tool returned something that does not fit its output schema; the call was made."""

    code = "output_unfit"
    remedy = "Mend the tool, or its `output_schema`; look at the other side before you call it again."


class QuestionInvalid(ModelVisible):
    """A question to a person has no text, or a form that cannot be shown."""

    code = "question_invalid"
    remedy = "Ask with a text, and with a form of named fields."


class McpServerDown(ModelVisible):
    """The MCP server cannot be started or reached, or does not speak the protocol; the call was not made."""

    code = "mcp_server_down"
    remedy = "`./callboard doctor` starts every server and says what is wrong with it ([MCP servers](mcp-servers.md))."


class McpLoginNeeded(McpServerDown):
    """The MCP server wants a person's login, and the tenant has none, or it has ended; the call was not made."""

    code = "mcp_login_needed"
    remedy = "Run `./callboard mcp login` with the server's name ([MCP servers](mcp-servers.md#logins))."
