"""Sends spans to a collector over OTLP/HTTP, as binary protobuf (https://opentelemetry.io/docs/specs/otlp)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from config.egress.policy import allowed_in
from config.settings import Settings
from config.settings.project import own_version
from observers.traces.conventions import MAX_TEXT, Attribute, label_of
from observers.traces.errors import COLLECTOR_REFUSED, COLLECTOR_UNREACHABLE
from observers.traces.spans import SpanValue

if TYPE_CHECKING:
    import httpx2
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

log = logging.getLogger(__name__)

MAX_BYTES = 2 * 1024 * 1024
"""Bytes of spans in one request; collectors read 20 MB by default, gateways before them often less."""
TIMEOUT_S, TOTAL_S = 10.0, 20.0
MAX_ANSWER = 64 * 1024
_AGAIN = frozenset({408, 425, 429})
"""The answers of 400 to 499 that ask for the same request later; all from 500 on do too."""


class TraceCollector:
    """One collector; for one thread."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.traces_address
        self._host = urlsplit(self._url).netloc.rpartition("@")[2]
        self._headers = settings.traces_header_map
        self._allowed = allowed_in(settings.http_allowed_hosts)
        self._resource = {
            "service.name": settings.app_id,
            "service.version": own_version(),
            "deployment.environment.name": settings.environment or settings.deployment,
        }
        self._client: httpx2.Client | None = None

    def send(self, spans: Iterable[SpanValue]) -> None:
        """Send spans, in several requests where they are many.

        Raises:
            COLLECTOR_UNREACHABLE: it did not take some of them; sent again they are the same spans.
            COLLECTOR_REFUSED: the collector does not want them.
        """
        batch, size = list[Any](), 0
        for value in spans:
            span = span_message(value)
            batch.append(span)
            size += span.ByteSize()
            if size >= MAX_BYTES:
                self._post(batch)
                batch, size = [], 0
        if batch:
            self._post(batch)

    def probe(self) -> None:
        """Return if the collector takes a request without spans; raises as ``send``."""
        self._post([])

    def close(self) -> None:
        """Close the connections; another ``send`` opens them again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _post(self, batch: list[Span]) -> None:
        import httpx2
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
        from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
        from opentelemetry.proto.resource.v1.resource_pb2 import Resource
        from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

        scope = ScopeSpans(scope=InstrumentationScope(name="callboard", version=own_version()), spans=batch)
        resource = Resource(attributes=_key_values(self._resource))
        body = ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])])
        try:
            answer = self._opened().post(self._url, content=body.SerializeToString())
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = label_of(f"{type(error).__name__}: {error}", MAX_TEXT)
            raise COLLECTOR_UNREACHABLE(host=self._host, reason=reason) from error
        self._judge(answer)

    def _judge(self, answer: httpx2.Response) -> None:
        status = answer.status_code
        if 200 <= status < 300:
            self._note_rejected(answer.content)
            return
        sentence = _sentence_of(answer.headers.get("Content-Type", ""), answer.content)
        if status in _AGAIN or status >= 500:
            raise COLLECTOR_UNREACHABLE(host=self._host, reason=f"{status} {sentence}".rstrip())
        raise COLLECTOR_REFUSED(host=self._host, status=status, sentence=sentence or "without a reason")

    def _note_rejected(self, body: bytes) -> None:
        """Log how many spans the collector did not want; OTLP forbids to send them again."""
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        try:
            partial = ExportTraceServiceResponse.FromString(body).partial_success
        except DecodeError:  # it answered 200, in a language of its own
            return
        if partial.rejected_spans or partial.error_message:
            text = "the collector at %s rejected %d spans: %s"
            log.warning(text, self._host, partial.rejected_spans, label_of(partial.error_message, MAX_TEXT))

    def _opened(self) -> httpx2.Client:
        if self._client is None:
            import httpx2

            from config.egress.bounded import Bounds

            bounds = Bounds(max_bytes=MAX_ANSWER, timeout_s=TIMEOUT_S, total_s=TOTAL_S, allowed=self._allowed)
            own = {"Content-Type": "application/x-protobuf", "User-Agent": f"callboard/{own_version()}"}
            options = bounds.client_options()
            self._client = httpx2.Client(**{**options, "headers": {**options["headers"], **self._headers, **own}})
        return self._client


def _sentence_of(content_type: str, body: bytes) -> str:
    """Return why the collector refused, a line without secrets: the message of a ``google.rpc.Status``, or the text."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.trace.v1.trace_pb2 import Status

    if content_type.startswith("application/x-protobuf"):
        try:
            return label_of(Status.FromString(body).message, MAX_TEXT)  # its message has the same number, 2
        except DecodeError:
            pass
    return label_of(body.decode("utf-8", "replace").strip(), MAX_TEXT)


def span_message(value: SpanValue) -> Span:
    """Return a span as OTLP has it."""
    from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

    return Span(
        trace_id=bytes.fromhex(value.trace_id),
        span_id=bytes.fromhex(value.span_id),
        parent_span_id=bytes.fromhex(value.parent_id) if value.parent_id is not None else b"",
        name=value.name,
        kind=Span.SpanKind.SPAN_KIND_CLIENT if value.is_client else Span.SpanKind.SPAN_KIND_INTERNAL,
        start_time_unix_nano=_nanoseconds(value.start_ms),
        end_time_unix_nano=_nanoseconds(value.end_ms),
        attributes=_key_values(value.attributes),
        events=[
            Span.Event(
                name=event.name, time_unix_nano=_nanoseconds(event.at_ms), attributes=_key_values(event.attributes)
            )
            for event in value.events
        ],
        status=Status(code=Status.StatusCode.STATUS_CODE_ERROR, message=value.error) if value.error else None,
    )


def _nanoseconds(ms: float) -> int:
    return min(max(0, round(ms * 1000) * 1000), 2**63 - 1)


def _key_values(attributes: Mapping[str, Attribute]) -> list[KeyValue]:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    values = []
    for name, value in attributes.items():
        match value:
            case bool():
                any_value = AnyValue(bool_value=value)
            case int() if -(2**63) <= value < 2**63:
                any_value = AnyValue(int_value=value)
            case int() | float():
                any_value = AnyValue(double_value=float(value))
            case _:
                any_value = AnyValue(string_value=value)
        values.append(KeyValue(key=name, value=any_value))
    return values
