"""Which scenarios, and which checks of a scenario, do not apply to Callboard, and why.

The test fails where a check fails or warns that is not named here, where no check of a scenario succeeds, and where
what is named here passes.
"""

from __future__ import annotations

from collections.abc import Mapping

PROMPTS = "The server has no prompts: it offers agents and tools."
CONTENT = (
    "A tool returns JSON data, which is the text and the structured content; pictures and sounds are not passed on."
)
OWN_RESOURCES = "Reads a resource of the suite's own. The resources of the server are its runs and threads."
LOG = "The server sends no log messages; a run's log is read with `run_events`."
SAMPLING = "The server asks no client for a model's answer: agents have models of their own."
ROOTS = "The server asks no client for its folders."
NO_SESSION = "There are no sessions over HTTP (decision 69)."
LOOKS = "The suite waits for 1.5 seconds after a change; the server compares every 2 seconds."
RESUMING = "An answer that breaks off is not resumed by event ids, but found again by the id of its run."
UPDATES = f"{NO_SESSION} So clients of this era subscribe to resources on stdio alone."
TASKS = "The extension is not offered: each call is a run, which `run_status`, `run_events` and `cancel_run` follow."
KEY = "Expects `user_name` as the key of the question. The server chooses the keys, and here they are ids of approvals."
NO_STATE = (
    "Sends answers with neither the state nor the keys of a question. They belong to no run, so a new one begins."
)
EXTENSION = "An extension of the authorization that Callboard does not implement."
ASKED_AGAIN = (
    "The question is dismissed while a person is asked, and gets the answer when the call is made again (decision 64)."
)

ON_STDIO = dict.fromkeys(
    ("elicitation-sep1034-defaults", "elicitation-sep1330-enums", "tools-call-elicitation"),
    f"On stdio, behind a bridge from HTTP. {NO_SESSION} So clients of this era get no forms there.",
)
"""Scenarios of the handshake era that need a session, and what the page says of them."""
SERVER: Mapping[str, str] = {
    "logging-set-level": LOG,
    "tools-call-with-logging": LOG,
    "completion-complete": "The server completes no arguments.",
    "tools-call-image": CONTENT,
    "tools-call-audio": CONTENT,
    "tools-call-embedded-resource": CONTENT,
    "tools-call-mixed-content": CONTENT,
    "tools-call-sampling": SAMPLING,
    "server-session-lifecycle": NO_SESSION,
    "server-sse-multiple-streams": f"Its check of the handshake era needs a session. {NO_SESSION}",
    "server-sse-polling": f"{NO_SESSION} {RESUMING}",
    "resources-read-text": OWN_RESOURCES,
    "resources-read-binary": OWN_RESOURCES,
    "resources-templates-read": OWN_RESOURCES,
    "resources-subscribe": UPDATES,
    "resources-unsubscribe": UPDATES,
    "prompts-list": PROMPTS,
    "prompts-get-simple": PROMPTS,
    "prompts-get-with-args": PROMPTS,
    "prompts-get-embedded-resource": PROMPTS,
    "prompts-get-with-image": PROMPTS,
    "caching:sep-2549-prompts-list-caching-hints": PROMPTS,
    "server-stateless:sep-2575-server-rejects-undeclared-capability": SAMPLING,
    "server-stateless:sep-2575-missing-capability-http-400": SAMPLING,
    "server-stateless:sep-2575-server-sends-tools-list-changed-on-subscription": LOOKS,
    "input-required-result-basic-elicitation": KEY,
    "input-required-result-ignore-extra-params": NO_STATE,
    "input-required-result-basic-sampling": SAMPLING,
    "input-required-result-capability-check": SAMPLING,
    "input-required-result-multiple-input-requests": f"{SAMPLING} {ROOTS}",
    "input-required-result-basic-list-roots": ROOTS,
    "input-required-result-non-tool-request": PROMPTS,
    "http-custom-header-server-validation": "No tool of the server asks for arguments in headers (`x-mcp-header`).",
    "tasks-lifecycle": TASKS,
    "tasks-capability-negotiation": TASKS,
    "tasks-wire-fields": TASKS,
    "tasks-request-state-removal": TASKS,
    "tasks-mrtr-input": TASKS,
    "tasks-request-headers": TASKS,
    "tasks-dispatch-and-envelope": TASKS,
    "tasks-required-task-error": TASKS,
    "tasks-status-notifications": TASKS,
    "tasks-mrtr-composition": TASKS,
}
CLIENT: Mapping[str, str] = {
    "elicitation-sep1034-client-defaults:client-elicitation-sep1034-general": ASKED_AGAIN,
    "auth/dpop": EXTENSION,
    "auth/dpop-nonce": EXTENSION,
    "auth/enterprise-managed-authorization": EXTENSION,
    "auth/wif-jwt-bearer": EXTENSION,
}
