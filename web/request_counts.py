"""What a web process counts of the requests that it answers, for `/metrics`."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from typing import Any

from flask import Flask, Response, g, request

from observers.metrics.names import SECONDS
from observers.metrics.process_load import ProcessLoad

WINDOW_S = 60.0
"""Seconds of requests that the rate and the response time are of."""
Measured = dict[tuple[str, ...], Any]
"""A metric's values by those of its labels."""
PROBES = frozenset({"/health", "/metrics", "/ready"})
"""Asked by monitors: a slow scrape of a quiet deployment is no reason to scale out."""
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class RequestCounts:
    """The requests of one web process, by method and status."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, ...], float] = defaultdict(float)
        self._durations: dict[tuple[str, ...], dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._recent: deque[tuple[float, float]] = deque(maxlen=100_000)
        self.active = 0
        self.load = ProcessLoad()

    def note(self, method: str, status: int, took_s: float, *, is_work: bool = True) -> None:
        """Count a request that was answered; the rate and the response time are of those that are work."""
        method = method if method in METHODS else "other"
        bound = next((bound for bound in SECONDS if took_s <= bound), float("inf"))
        with self._lock:
            self._requests[method, str(status)] += 1
            self._durations[method,][f"{bound:g}"] += 1
            self._durations[method,]["sum"] += took_s
            if is_work:
                self._recent.append((time.monotonic(), took_s))

    def values(self, viewers: int) -> dict[str, Measured]:
        """Return the metrics of this process."""
        with self._lock:
            since_s = time.monotonic() - WINDOW_S
            while self._recent and self._recent[0][0] < since_s:
                self._recent.popleft()
            count, spent_s = len(self._recent), sum(took_s for _, took_s in self._recent)
            durations: Measured = {place: dict(parts) for place, parts in self._durations.items()}
            requests: Measured = dict(self._requests)
        signals: Measured = {("api_requests_per_second",): count / WINDOW_S, ("api_cpu",): self.load.cpu_share()}
        signals[("api_response_seconds",)] = spent_s / count if count else 0.0
        return {
            "http_requests": requests,
            "http_request_duration_seconds": durations,
            "http_active_connections": {(): self.active + viewers},
            "scaling_signal": signals,
        }


def register(app: Flask, counts: RequestCounts) -> None:
    """Count each request of the application."""

    def begin() -> None:
        counts.active += 1
        g.began_s = time.perf_counter()

    def end(response: Response) -> Response:
        began_s = g.get("began_s")
        if began_s is not None:
            took_s = time.perf_counter() - began_s
            counts.note(request.method, response.status_code, took_s, is_work=request.path not in PROBES)
        return response

    def leave(_: BaseException | None = None) -> None:
        if "began_s" in g:
            counts.active -= 1

    app.before_request(begin)
    app.after_request(end)
    app.teardown_request(leave)
