"""The lines: where each is, how it is broken, what is promised by it, and the tests that have to notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of code, named by a text that occurs once in its file."""

    promise: str
    file: str
    text: str
    broken: str
    """What replaces the text."""
    tests: str
    """Files of tests, or single tests, with blanks between them."""


LINES = (
    # --- runs, owners and their log
    Line(
        promise="a stale owner's writes are refused by the fence",
        file="bus/journal/states/owned.py",
        text='runs.c.fence == bindparam("fence_"), runs.c.status',
        broken='bindparam("fence_").is_not(None), runs.c.status',
        tests="tests/bus/journal/ownership/test_claim.py tests/bus/journal/log/test_writer.py",
    ),
    Line(
        promise="each owner has the next fence",
        file="bus/journal/states/owned.py",
        text="fence=runs.c.fence + 1,",
        broken="fence=runs.c.fence,",
        tests="tests/bus/journal/ownership/test_claim.py",
    ),
    Line(
        promise="a run is claimed by one worker",
        file="bus/journal/states/owned.py",
        text='runs.c.status == "queued", is_first_of_thread()',
        broken='runs.c.status != "ended", is_first_of_thread()',
        tests="tests/bus/journal/ownership/test_claim.py",
    ),
    Line(
        promise="runs of a thread are executed one by one, in their order",
        file="bus/journal/states/conditions.py",
        text="older.c.turn < runs.c.turn",
        broken="older.c.turn < 0",
        tests="tests/bus/journal/ownership/test_claim.py tests/bus/journal/test_threads.py",
    ),
    Line(
        promise="a lease that has expired is no owner's",
        file="bus/journal/states/conditions.py",
        text="past = runs.c.lease_until < database.lease_clock()",
        broken="past = runs.c.lease_until < 0",
        tests="tests/bus/journal/ownership/test_reaper.py",
    ),
    Line(
        promise="no grace begins on a full disk, where no heartbeat could be written",
        file="bus/journal/states/conditions.py",
        text="lease_until=runs.c.lease_until - 1",
        broken="fence=runs.c.fence",
        tests="tests/bus/journal/ownership/test_reaper.py",
    ),
    Line(
        promise="a run is ended as dead for a tool only where its owner worked on no other run",
        file="bus/journal/states/crashes.py",
        text='    return connection.execute(_BESIDE, {"owner_": run.owner, "run_": run.id}).first() is None',
        broken="    return True",
        tests="tests/bus/journal/ownership/test_reaper.py tests/handlers/worker/test_suspects.py",
    ),
    Line(
        promise="an expired lease of an earlier boot counts as expired",
        file="bus/journal/states/conditions.py",
        text="or_(past, runs.c.lease_boot != boot)",
        broken="or_(past, runs.c.lease_boot.is_(None))",
        tests="tests/bus/journal/ownership/test_claim.py",
    ),
    Line(
        promise="the third crash of a run ends it",
        file="bus/journal/states/crashes.py",
        text="return crashes >= ALWAYS_SUSPECT_AFTER",
        broken="return crashes > 99",
        tests="tests/bus/journal/ownership/test_reaper.py tests/handlers/worker/test_suspects.py",
    ),
    Line(
        promise="an end without an owner declares the numbers that are missing first",
        file="bus/journal/unowned/transitions.py",
        text="[WithdrawnPayload(ranges=ranges), *change.events] if ranges else change.events",
        broken="change.events",
        tests="tests/bus/journal/test_cancel.py tests/bus/journal/test_run_end.py",
    ),
    Line(
        promise="a write without a lease raises the fence",
        file="bus/journal/unowned/transitions.py",
        text="fence, at = row.fence + 1, stamp()",
        broken="fence, at = row.fence, stamp()",
        tests="tests/bus/journal/test_cancel.py tests/bus/journal/test_run_end.py",
    ),
    Line(
        promise="sealed pieces of a message that was not finished are withdrawn",
        file="bus/journal/log/events.py",
        text="elif row.message_id in final:",
        broken="else:",
        tests="tests/bus/journal/log/test_events.py tests/bus/journal/log/test_writer.py",
    ),
    Line(
        promise="a reader passes no number that is neither delivered nor declared",
        file="bus/journal/live/reader.py",
        text="if not self._is_declared(self.last + 1, following - 1):",
        broken="if self.last < 0:",
        tests="tests/bus/journal/live/test_reader.py",
    ),
    Line(
        promise="a cursor beyond the last number is an error",
        file="bus/journal/queries/runs.py",
        text="if cursor > row.reserved_to:",
        broken="if cursor > row.reserved_to + 1_000_000:",
        tests="tests/bus/journal/queries/test_runs.py tests/agents/test_agent.py",
    ),
    Line(
        promise="the thread's next run is woken when one ends",
        file="bus/journal/log/commit.py",
        text="        announce(connection, following)\n",
        broken="        pass\n",
        tests="tests/bus/journal/test_outbox.py",
    ),
    Line(
        promise="a live event that this deployment did not sign is dropped",
        file="bus/journal/live/signatures.py",
        text="return body if is_ours else None",
        broken="return body",
        tests="tests/bus/journal/live/test_signatures.py",
    ),
    Line(
        promise="a forged or foreign message starts nothing",
        file="bus/messages/message.py",
        text='if not all(is_name(text) for text in texts.values()) or not texts["run_id"]:',
        broken='if not texts["run_id"]:',
        tests="tests/bus/test_messages.py tests/handlers/test_forged_messages.py",
    ),
    # --- requests
    Line(
        promise="an idempotency key with another body is refused",
        file="bus/journal/idempotency.py",
        text="if row.body_digest != key.body_digest:",
        broken="if not row.body_digest:",
        tests="tests/bus/journal/acceptance/test_accept.py",
    ),
    Line(
        promise="an idempotency key is one principal's",
        file="bus/journal/idempotency.py",
        text='("tenant", "principal", "method", "path", "key")',
        broken='("tenant", "method", "path", "key")',
        tests="tests/bus/journal/acceptance/test_accept.py tests/bus/journal/test_access.py",
    ),
    Line(
        promise="a request has one limit, its wait for a thread included",
        file="web/server/worker.py",
        text="with time_limit(self.request_s, conn.since):",
        broken="with time_limit(self.request_s * 1000, conn.since):",
        tests="tests/web/server/test_in_process.py",
    ),
    # --- calls and approvals
    Line(
        promise="what is done is what a person approved",
        file="agents/steps/stages.py",
        text="if answer.digest != canonical_digest(decision.arguments) or answer.tool_digest != version_of(tool):",
        broken="if answer.tool_digest != version_of(tool):",
        tests="tests/agents/test_approvals.py",
    ),
    Line(
        promise="what is done is what a person approved when the engine asked",
        file="agents/steps/call_record.py",
        text="return answer.digest == canonical_digest(arguments) and answer.tool_digest",
        broken="return answer.tool_digest",
        tests="tests/agents/governance/engine/test_governed_runs.py",
    ),
    Line(
        promise="the first decision about an approval counts",
        file="bus/journal/decisions/decisions.py",
        text="if question.decision is not None:",
        broken="if question.decision is ...:",
        tests="tests/bus/journal/test_approvals.py",
    ),
    Line(
        promise="an approval is over at its time",
        file="bus/journal/decisions/decisions.py",
        text="question.expires_ms <= wall_ms(connection):",
        broken="question.expires_ms < 0:",
        tests="tests/bus/journal/test_approvals.py tests/bus/journal/test_approval_races.py",
    ),
    Line(
        promise="an approval is used once",
        file="bus/journal/approvals.py",
        text="(row.used_ms is not None and row.decision in USED_UP)",
        broken="(row.used_ms is ... and row.decision in USED_UP)",
        tests="tests/bus/journal/test_approvals.py tests/agents/test_approvals.py",
    ),
    Line(
        promise="a call that several persons have to approve is approved by others than the run's own",
        file="bus/journal/decisions/decisions.py",
        text="if {run.principal, asker} & {person, by}:",
        broken="if not person:",
        tests="tests/bus/journal/test_approvals.py tests/web/test_approvals.py",
    ),
    Line(
        promise="a tool is called by the roles that may call it",
        file="agents/steps/stages.py",
        text="if not tool.may_be_called_with(context.lease.roles):",
        broken="if context.lease is None:",
        tests="tests/agents/steps/test_stages.py",
    ),
    Line(
        promise="the outcome of an unsafe call that was under way is not guessed, and it is not repeated",
        file="config/effects.py",
        text="changes=Changes.EACH_CALL, when_lost=Recovery.LEAVE",
        broken="changes=Changes.EACH_CALL, when_lost=Recovery.REPEAT",
        tests="tests/config/test_effects.py tests/agents/test_resume.py",
    ),
    Line(
        promise="no step starts after the stop was seen",
        file="agents/context.py",
        text="        if self.is_stopped:\n            raise asyncio.CancelledError\n",
        broken="",
        tests="tests/agents/steps/test_tool_step.py",
    ),
    Line(
        promise="a run makes so many rounds of tool calls and no more",
        file="agents/agent.py",
        text="return self._rounds >= self._definition.max_iterations",
        broken="return self._rounds > self._definition.max_iterations",
        tests="tests/agents/test_agent.py",
    ),
    Line(
        promise="the name of a tool is shown before its arguments are whole",
        file="agents/steps/model_step.py",
        text="for named in stream.newly_named():",
        broken="for named in ():",
        tests="tests/agents/test_agent.py::test_a_calls_name_is_announced_before_its_arguments",
    ),
    # --- policy
    Line(
        promise="the strictest rule decides",
        file="agents/governance/policy/local.py",
        text="first = max(votes, key=lambda vote: RANKS[vote.verdict])",
        broken="first = votes[0]",
        tests="tests/agents/governance/policy/test_local.py",
    ),
    Line(
        promise="a rule about what a run has cost is asked with what it has cost",
        file="agents/context.py",
        text="cost_usd=totals.cost_usd or 0.0,",
        broken="cost_usd=0.0,",
        tests="tests/agents/test_policy.py",
    ),
    Line(
        promise="a rule about tokens is asked with the tokens of the run",
        file="agents/context.py",
        text='tokens=used.get("input_tokens", 0) + used.get("output_tokens", 0),',
        broken="tokens=0,",
        tests="tests/agents/test_policy.py",
    ),
    # --- tenants, credentials
    Line(
        promise="a query returns rows of the principal's tenant",
        file="bus/identity/access.py",
        text="conditions = [table.c.tenant == principal.tenant]",
        broken="conditions = [table.c.tenant.is_not(None)]",
        tests="tests/bus/identity/test_access.py tests/bus/journal/test_access.py",
    ),
    Line(
        promise="nothing is done with another tenant's object",
        file="bus/identity/access.py",
        text="    if target.tenant != principal.tenant:\n        return False\n",
        broken="",
        tests="tests/bus/identity/test_access.py",
    ),
    Line(
        promise="a key that was revoked is not accepted",
        file="bus/identity/credentials/keys.py",
        text="    yield api_keys.c.revoked_ms.is_(None)\n",
        broken="",
        tests="tests/bus/identity/credentials/test_keys.py",
    ),
    Line(
        promise="an envelope is one of a holder of the key",
        file="bus/identity/envelope.py",
        text="if not hmac.compare_digest(_signature(keys[key_id], head, audience, method, body), signature):",
        broken="if not signature:",
        tests="tests/bus/identity/test_envelope.py",
    ),
    Line(
        promise="an envelope is of now",
        file="bus/identity/envelope.py",
        text="if not abs(now_s - time_s) <= WINDOW_S:",
        broken="if not abs(now_s - time_s) <= WINDOW_S * 1000:",
        tests="tests/bus/identity/test_envelope.py",
    ),
    Line(
        promise="a changed entry of the audit log is found",
        file="bus/identity/audit/chain.py",
        text="is_own = row.digest == digest_of(entry_of(row))",
        broken="is_own = True",
        tests="tests/bus/identity/audit/test_chain.py",
    ),
    Line(
        promise="a page of an origin that is not listed reads no answer",
        file="web/security.py",
        text="    if origin in origins:\n",
        broken="    if origin:\n",
        tests="tests/web/test_cors.py",
    ),
    # --- what leaves, and what is kept back
    Line(
        promise="no special address is asked",
        file="config/egress/addresses.py",
        text="return not any(address in block for block in _SPECIAL_V4)",
        broken="return True",
        tests="tests/config/egress/test_policy.py",
    ),
    Line(
        promise="each redirect is checked anew",
        file="config/egress/fetch.py",
        text="        self.policy.require_target(request.target)\n        with self.span(request)",
        broken="        with self.span(request)",
        tests="tests/config/egress/test_fetch.py",
    ),
    Line(
        promise="an HTTP capability without `hosts` asks the host of its URL alone",
        file="agents/tools/runners/endpoint.py",
        text="hosts_in(self.hosts or _own_host(target))",
        broken='hosts_in(self.hosts or ("*", *_own_host(target)))',
        tests="tests/agents/tools/runners/test_endpoint.py",
    ),
    Line(
        promise="secrets are replaced in every text",
        file="config/redaction/redactor.py",
        text='_at_word("sk", "rk", "pk", then=r"[-_][A-Za-z0-9_-]{16,}"),',
        broken='_at_word("sk_", "rk", "pk", then=r"[-_][A-Za-z0-9_-]{16,}"),',
        tests="tests/config/redaction/test_redactor.py",
    ),
    Line(
        promise="no part of a secret is streamed before it is whole",
        file="agents/governance/guardrails/stream.py",
        text="        if first is not None:\n            return self._examined(text, len(before), first)\n",
        broken="",
        tests="tests/agents/governance/guardrails/test_stream.py",
    ),
    Line(
        promise="a tool's path stays in its sandbox",
        file="agents/tools/isolation/sandbox.py",
        text="below = os.open(name, FOLDER_FLAGS, dir_fd=current)",
        broken="below = os.open(name, FOLDER_FLAGS & ~os.O_NOFOLLOW, dir_fd=current)",
        tests="tests/agents/tools/isolation/test_sandbox.py",
    ),
    Line(
        promise="a query changes nothing",
        file="agents/tools/isolation/sql_process.py",
        text="    database.set_authorizer(_authorizer(is_live))\n",
        broken="",
        tests="tests/agents/tools/sql/test_sqlite.py",
    ),
    # --- attacks
    Line(
        promise="a name that an MCP server chose loosens no policy",
        file="agents/governance/policy/compiled.py",
        text="return tools is None or ToolNames(tools).list_tool(facts, of_names=False)",
        broken="return tools is None or ToolNames(tools).list_tool(facts, of_names=True)",
        tests="tests/agents/governance/policy/test_local.py",
    ),
    Line(
        promise="a condition loosens a policy by no name that an MCP server chose",
        file="agents/governance/policy/local.py",
        text="if times[rule.name] < len(names) + 1}",
        broken="if times[rule.name] < 0}",
        tests="tests/agents/governance/policy/test_local.py",
    ),
    Line(
        promise="a tool's name at its server is no exception of a rule",
        file="agents/governance/policy/compiled.py",
        text="tuple(checks_of(fields.unless, of_names=False))",
        broken="tuple(checks_of(fields.unless, of_names=True))",
        tests="tests/agents/governance/policy/test_local.py",
    ),
    Line(
        promise="no MCP server takes an override by a name that it lists later",
        file="agents/catalogue.py",
        text="first = [tool_origin for tool_origin in meant if seen.get(tool_origin, inf) == min(times)]",
        broken="first = sorted(meant)[:1]",
        tests="tests/agents/test_mcp_clashes.py",
    ),
    Line(
        promise="a condition that fails lifts no rule that blocks a call",
        file="agents/governance/policy/local.py",
        text="if verdict is Verdict.ALLOW or (verdict is Verdict.CONSTRAIN and stays):",
        broken="if verdict is Verdict.ALLOW or stays:",
        tests="tests/agents/governance/policy/test_condition.py",
    ),
    Line(
        promise="a name that a model chose is stored without secrets and hidden characters",
        file="agents/models/streams/tool_calls.py",
        text="call.name = stored_called_name(call.name)",
        broken="call.name = str(call.name)",
        tests="tests/agents/models/streams/test_tool_calls.py",
    ),
    Line(
        promise="the form of a tool's question is stored without hidden characters",
        file="bus/journal/approvals.py",
        text="fields = shown_schema(fields)",
        broken="shown_schema(fields)",
        tests="tests/agents/test_questions.py::test_a_question_is_stored_without_secrets_and_hidden_characters",
    ),
    Line(
        promise="informational answers of the identity provider are counted",
        file="config/egress/bounded.py",
        text="    bound_informational()\n",
        broken="",
        tests="tests/config/egress/test_bounded.py",
    ),
    Line(
        promise="no secret is kept as a correlation id",
        file="bus/journal/acceptance/accept.py",
        text="if is_correlation_id(candidate) and not has_secret(candidate) else None",
        broken="if is_correlation_id(candidate) else None",
        tests="tests/bus/journal/storage/test_internal_events.py",
    ),
    Line(
        promise="no secret is kept as an idempotency key",
        file="bus/journal/idempotency.py",
        text='stored_name(self.key, "the Idempotency-Key")',
        broken='stored_name("", "the Idempotency-Key")',
        tests="tests/bus/journal/acceptance/test_accept.py",
    ),
    # --- processes and settings
    Line(
        promise="an observer that raises changes neither the run nor another observer",
        file="observers/invoker.py",
        text="except BaseException as error:  # also SystemExit",
        broken="except KeyboardInterrupt as error:  # also SystemExit",
        tests="tests/observers/test_invoker.py",
    ),
    Line(
        promise="a forked process has MCP sessions of its own",
        file="agents/tools/mcp/pool.py",
        text="@after_fork\ndef _renew()",
        broken="def _renew()",
        tests="tests/agents/tools/mcp/test_pool.py::test_a_child_begins_without_the_parents_pools_and_their_lock",
    ),
    Line(
        promise="TEMPORAL_TASK_QUEUE names the queue",
        file="config/settings/sources.py",
        text='"TEMPORAL_TASK_QUEUE": "queue",',
        broken='"TEMPORAL_TASK_QUEUE": "deployment",',
        tests="tests/cli/doctor/test_packages.py",
    ),
    Line(
        promise="DATABASE_MAX_OVERFLOW sets the connections beyond the pool",
        file="config/settings/sources.py",
        text='"DATABASE_MAX_OVERFLOW": "database_max_overflow",',
        broken='"DATABASE_MAX_OVERFLOW": "database_pool_size",',
        tests="tests/cli/doctor/test_packages.py",
    ),
)
