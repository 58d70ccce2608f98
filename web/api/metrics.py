"""`/metrics`: what Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, request

from bus.identity.access import require_may_read_metrics
from bus.identity.errors import FORBIDDEN
from web.api.health import redis_state
from web.auth.authentication import current_principal
from web.calls.call import call
from web.process import WebProcess, current_process

metrics = Blueprint("metrics", __name__)


@metrics.get("/metrics")
@call({200: {"text/plain": str}}, problems=(FORBIDDEN,))
def scrape() -> Response:
    """Return the metrics in the form that `Accept` asks for: Prometheus's text, or OpenMetrics.

    For principals of the tenant `default` with a role that sees the runs of others.
    """
    from observers.metrics.exposition import Exposition  # the first request opens the journal

    require_may_read_metrics(current_principal())
    process = current_process()
    exposition = Exposition(process.journal.database, lambda: _own(process))
    body, content_type = exposition.text(request.accept_mimetypes.to_header())
    return Response(body, content_type=content_type)


def _own(process: WebProcess) -> Mapping[str, Any]:
    values = process.requests.values(len(process.hub.viewers))
    redis = redis_state(process)
    return values if redis == "none" else {**values, "redis_up": {(): float(redis == "ok")}}
