"""A collector of OTLP/HTTP on a real socket, which reads what it gets with the official protobuf classes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PROTOBUF = "application/x-protobuf"
Answer = tuple[int, bytes]
Respond = Callable[[ExportTraceServiceRequest], Answer]


def takes_all(_request: ExportTraceServiceRequest) -> Answer:
    return 200, ExportTraceServiceResponse().SerializeToString()


class OtlpReceiver:
    """Keeps every span that it took, by its trace and its id, as a back end does; and how often each came."""

    def __init__(self) -> None:
        self.spans: dict[tuple[bytes, bytes], Span] = {}
        self.times: Counter[tuple[bytes, bytes]] = Counter()
        self.resources: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.sizes: list[int] = []
        self.respond: Respond = takes_all
        own = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                own.headers.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
                status, answer = own.take(body)
                self.send_response(status)
                self.send_header("Content-Type", PROTOBUF)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, body: bytes) -> Answer:
        request = ExportTraceServiceRequest.FromString(body)
        self.sizes.append(len(body))
        status, answer = self.respond(request)
        if status == 200:
            for resource_spans in request.resource_spans:
                self.resources.append(facts_of(resource_spans.resource.attributes))
                for span in (span for scope in resource_spans.scope_spans for span in scope.spans):
                    self.spans[span.trace_id, span.span_id] = span
                    self.times[span.trace_id, span.span_id] += 1
        return status, answer

    def of_run(self, run_id: str) -> list[Span]:
        """Return the spans of the trace in which a run's root is."""
        (trace_id,) = {
            span.trace_id for span in self.roots() if facts_of(span.attributes)["callboard.run.id"] == run_id
        }
        return [span for span in self.all() if span.trace_id == trace_id]

    def roots(self) -> list[Span]:
        """Return the spans of runs."""
        return [span for span in self.all() if any(each.key == "callboard.run.id" for each in span.attributes)]

    def all(self) -> list[Span]:
        return [*self.spans.values()]

    def __enter__(self) -> OtlpReceiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def facts_of(attributes: Iterable[Any]) -> dict[str, Any]:
    """Return attributes by their names, each of which is there once."""
    pairs = [(each.key, getattr(each.value, each.value.WhichOneof("value"))) for each in attributes]
    assert len(dict(pairs)) == len(pairs), "an attribute is there twice"
    return dict(pairs)


def without_parent(spans: Iterable[Span]) -> list[str]:
    """Return the names of the spans whose parent is not among those of the same trace."""
    spans = list(spans)
    ids = {(span.trace_id, span.span_id) for span in spans}
    return [span.name for span in spans if span.parent_span_id and (span.trace_id, span.parent_span_id) not in ids]
