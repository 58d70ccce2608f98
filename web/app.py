"""The Flask application with all blueprints; gunicorn serves ``web.app:create_app()``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from bus.identity.credentials.credential import Caller
from config.database.timeouts import ANSWER_S, patience, time_limit
from config.folders import require_own_folders
from config.logs import acting_for, configure_logging
from config.settings import Settings, settings
from config.tracing import TRACE_ID, current_trace_id, new_trace_id, parent_span_of, trace_id_of, traced
from web import limits, problems, request_counts, security
from web.api.agent_versions import agent_versions
from web.api.agents import agents, tools
from web.api.approvals import approvals
from web.api.audit import audit
from web.api.credentials.grants import grants
from web.api.credentials.keys import keys, tickets
from web.api.credentials.sign_in import sign_in
from web.api.events import decisions, events
from web.api.fleet import fleet, metrics
from web.api.health import health
from web.api.page import document, page
from web.api.queue import queues
from web.api.runs import runs
from web.api.selftest import selftest
from web.api.threads import threads
from web.api.webhooks import webhooks
from web.api.workflows import steps, workflows
from web.audit import register as register_audit
from web.auth import authentication, envelopes
from web.dialects.seeds.context import context
from web.dialects.seeds.conversation import conversation
from web.dialects.seeds.execute import execute
from web.dialects.seeds.orchestrator import seed
from web.mcp.endpoint import mcp
from web.process import WebProcess, current_process
from web.proxies import TrustedProxies

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

    from agents.runner import Runner


BLUEPRINTS = (
    runs,
    approvals,
    decisions,
    events,
    queues,
    threads,
    agents,
    workflows,
    steps,
    webhooks,
    agent_versions,
    tools,
    execute,
    grants,
    health,
    metrics,
    fleet,
    seed,
    conversation,
    context,
    selftest,
    document,
    sign_in,
    page,
    keys,
    tickets,
    audit,
    mcp,
)


def create_app(with_settings: Settings | None = None, runner: Runner | None = None) -> Flask:
    """Return the application. It connects at the first request, so a server may fork before.

    What each request passes before its function is registered here, in this order: host and origin, authentication,
    the credential for the audit log, limits.

    Raises:
        ROOM_TAKEN: another package has the name of one of Callboard's folders.
    """
    require_own_folders()
    chosen = with_settings or (runner.settings if runner is not None else None)
    if chosen is None:  # a server such as gunicorn created the application, so the process is not set up yet
        chosen = settings()
        configure_logging(chosen, "web")
    app = Flask("callboard", static_folder=None, template_folder=None)
    app.url_map.merge_slashes = False  # no redirects of addresses with double slashes
    process = app.extensions["callboard"] = WebProcess(chosen, runner)
    app.after_request(_name_trace)
    request_counts.register(app, process.requests)
    security.register(app, chosen)
    authentication.register(app, process)
    envelopes.register(app, process)
    register_audit(app, process)
    limits.register(app, chosen)
    problems.register(app)
    app.before_request(_name_caller)
    app.teardown_request(_forget_caller)
    app.before_request(_require_ready)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    app.wsgi_app = patience(ANSWER_S)(app.wsgi_app)  # type: ignore[method-assign]  # as Flask's documentation does it
    app.wsgi_app = time_limit(chosen.request_timeout_s)(app.wsgi_app)  # type: ignore[method-assign]
    app.wsgi_app = TrustedProxies(app.wsgi_app, chosen)  # type: ignore[method-assign]
    app.wsgi_app = Traced(app.wsgi_app)  # type: ignore[method-assign]  # outermost
    return app


def _name_caller() -> None:
    """Let the records of this request have its caller's tenant and principal."""
    caller: Caller | None = g.get("caller")
    if caller is not None:
        acting_for.set((caller.principal.tenant, caller.principal.id))


def _forget_caller(_: BaseException | None = None) -> None:
    """Leave the thread without a caller: the next request may be refused before it has one."""
    acting_for.set(None)


def _require_ready() -> None:
    if request.endpoint not in authentication.HEALTH_ENDPOINTS:
        current_process().require_ready()


class Traced:
    """Middleware: handles each request in a trace, which ends when the application returns the response.

    A stream continues on the loop, outside of it: what is logged of its viewer has the trace id by ``log_fields``.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        header = environ.get("HTTP_TRACEPARENT")
        with traced(trace_id_of(header) or new_trace_id(), parent_span=parent_span_of(header)):
            return self._app(environ, start_response)


def _name_trace(answer: Response) -> Response:
    """Add the header ``X-Trace-Id`` to every response, also to streams, whose head other code sends."""
    answer.headers[TRACE_ID] = current_trace_id() or new_trace_id()
    return answer
