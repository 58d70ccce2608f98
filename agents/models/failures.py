"""Translates LiteLLM's exceptions into Callboard's, with a sentence that names the remedy.

The type and the HTTP status are looked up along the chain of causes, because LiteLLM reports a refused connection as a
500, a missing key as a 500 or a 401, and a timeout as a 408.
"""

from __future__ import annotations

import email.utils
import math
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from agents.models.auto import offer_of
from agents.models.errors import MODEL_REFUSED, MODEL_TIMEOUT, MODEL_UNKNOWN, ModelFailed, ModelKeyMissing, is_temporary
from agents.models.lite import litellm_module
from agents.models.providers import lacks_address, unknown_provider
from config.clock import utc_now
from config.errors import CallboardError, Retryable
from config.redaction import redact_start

if TYPE_CHECKING:
    from agents.models.call import ModelCall

CHECK_NAMES = "Check `model:` and `api_base:` in the agent's definition."


def failure_of(error: BaseException, call: ModelCall) -> CallboardError:
    """Return the Callboard error for ``error``; the caller raises it ``from error``."""
    import httpx

    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, CallboardError):
            return link
        if isinstance(link, httpx.ConnectTimeout):
            return too_slow("connect_s", call)
        if isinstance(link, httpx.TimeoutException):
            return too_slow("first_token_s", call)
        if isinstance(link, (httpx.ReadError, httpx.RemoteProtocolError)):
            return ModelFailed(
                f"the connection to {call.address} broke before the answer was complete.", model=call.model
            )
    answer = _answer_of(chain)
    if answer is not None:
        return _answered(*answer, _explanation(chain), call, is_too_long=_is_too_long(chain))
    return _unanswered(chain, call)


def require_key(call: ModelCall) -> None:
    """Check, before anything is sent, that no key is known to be missing.

    Raises:
        ModelKeyMissing: a variable has to be set.
    """
    if lacks_address(call.model, call.api_base, os.environ):
        raise ModelKeyMissing(
            f"model '{call.model}' needs an address: write the resource's as `api_base:`, or set AZURE_API_BASE in the "
            "environment or .env.",
            model=call.model,
            variables=["AZURE_API_BASE"],
        )
    if call.api_key_env is not None:
        if not call.api_key:
            raise _key_error(call, [call.api_key_env])
    elif call.api_base is None:
        missing = _missing_keys(call.model)
        if missing and all(name.endswith("_API_KEY") for name in missing):
            raise _key_error(call, missing)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it, also what LiteLLM wrapped as an attribute."""
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < 20:
        link = waiting.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [getattr(link, "original_exception", None), link.__cause__ or link.__context__]


def _answer_of(chain: list[BaseException]) -> tuple[int, Any] | None:
    """Return the status and headers of the provider's answer: from the HTTP error if there is one, else LiteLLM's."""
    import httpx

    for link in chain:
        if isinstance(link, httpx.HTTPStatusError):
            return link.response.status_code, link.response.headers
    for link in chain:
        status = getattr(link, "status_code", None)
        if isinstance(status, int) and status != 500 and getattr(link, "message", None):
            return status or 500, getattr(link, "litellm_response_headers", None) or getattr(link, "headers", None)
    return None


def _explanation(chain: list[BaseException]) -> ProviderMessage:
    """Return the provider's explanation: from its body where the chain has it, else from LiteLLM's message."""
    bodies = [body for link in chain if (body := _body_of(link))]
    messages = [message for link in reversed(chain) if (message := getattr(link, "message", None))]
    texts = [_without_prefixes(str(text)) for text in (*messages, chain[0])]
    provider_messages = (parse_error_body(each) for each in (*bodies, *texts))
    return next((each for each in provider_messages if each.text), ProviderMessage(text="no reason given"))


def _body_of(link: BaseException) -> bytes:
    import httpx

    response = getattr(link, "response", None)
    try:
        return response.content if isinstance(response, httpx.Response) else b""
    except httpx.StreamError:  # the body was not read
        return b""


def _without_prefixes(text: str) -> str:
    text = text[:MAX_READ_CHARS].partition("\nTraceback")[0].strip()
    for prefix in ("litellm.", "BadRequestError: ", "APIConnectionError: "):
        text = text.removeprefix(prefix)
    return text


def _is_too_long(chain: list[BaseException]) -> bool:
    """Return whether LiteLLM read in the answer that the prompt is longer than the model's window."""
    return any(isinstance(link, litellm_module().ContextWindowExceededError) for link in chain)


def _answered(
    status: int, headers: Any, provider_message: ProviderMessage, call: ModelCall, *, is_too_long: bool
) -> CallboardError:
    facts: dict[str, Any] = {"model": call.model, "provider_status": status}
    provider = f"the provider of '{call.model}'"
    if status in (401, 403):
        return _key_refused(f"{provider} did not accept the key (HTTP {status}): {provider_message.text}.", facts, call)
    if status == 404:
        return MODEL_UNKNOWN(
            f"the provider does not know model '{call.model}' at {call.address}: {provider_message.text}. "
            f"{offer_of(call.model) or CHECK_NAMES}",
            **facts,
        )
    if provider_message.kinds & FINAL_KINDS:
        return MODEL_REFUSED(
            f"{provider} gives no more (HTTP {status}): {provider_message.text}. "
            "Trying again will not help; check the plan and the credit of the account behind the key.",
            cannot_serve=True,
            **facts,
        )
    if is_temporary(status):
        what = "asks to wait" if status == 429 else "failed"
        return ModelFailed(
            f"{provider} {what} (HTTP {status}): {provider_message.text}.",
            retry_after_s=retry_after_s(headers),
            **facts,
        )
    return _unknown(call) or MODEL_REFUSED(
        f"{provider} refused the request (HTTP {status}): {provider_message.text}. "
        "It will refuse it again; change the request or the agent's definition.",
        cannot_serve=is_too_long or status in (402, 413),
        **facts,
    )


def _unknown(call: ModelCall) -> CallboardError | None:
    """Return the error for a model whose provider LiteLLM does not know; None where it does."""
    try:
        litellm_module().get_llm_provider(model=call.model, api_base=call.api_base)
    except Exception:  # several types
        return unknown_provider(call.model)
    return None


def _key_refused(refusal: str, facts: dict[str, Any], call: ModelCall) -> CallboardError:
    if call.api_key is None and call.api_base is None and (missing := _missing_keys(call.model)):
        return _key_error(call, missing)
    if call.api_key_env is None and call.api_base is not None:
        remedy = (
            "No key was sent, because keys of the environment do not travel to an `api_base:`; "
            "name the key's variable in `api_key_env:`."
        )
    else:
        remedy = f"Check the key in {call.api_key_env or 'the environment'} and what it may do."
    return MODEL_REFUSED(f"{refusal} {remedy}", cannot_serve=True, **facts)


def _key_error(call: ModelCall, names: list[str]) -> ModelKeyMissing:
    key_names = " or ".join(names)
    return ModelKeyMissing(
        f"model '{call.model}' needs a key: set {key_names} in the environment or .env, "
        "or use demo/assistant, which needs none.",
        model=call.model,
        variables=names,
    )


def _missing_keys(model: str) -> list[str]:
    try:
        report = litellm_module().validate_environment(model=model)
    except Exception:  # LiteLLM raises various errors for unknown models; then no key is known to be missing
        return []
    return [] if report.get("keys_in_environment") else list(report.get("missing_keys") or [])


def too_slow(which: str, call: ModelCall) -> CallboardError:
    """Return the error for the timer ``which``, a field of the call's timeouts."""
    limit = f"{getattr(call.timeouts, which):g} s"
    what = {
        "connect_s": f"{call.address} did not accept a connection within {limit}; check the address, or raise",
        "first_token_s": f"'{call.model}' sent no first token within {limit}; if it needs longer, raise",
        "between_chunks_s": f"'{call.model}' fell silent for {limit} in the middle of its answer; raise",
        "total_s": f"'{call.model}' did not finish its answer within {limit}; if it needs longer, raise",
    }[which]
    return MODEL_TIMEOUT(f"{what} timeouts.{which} of the agent.", which=which, limit_s=getattr(call.timeouts, which))


def _unanswered(chain: list[BaseException], call: ModelCall) -> CallboardError:
    """Return the error for a call that failed before or beside HTTP."""
    import httpx

    certificate = next((link for link in chain if isinstance(link, ssl.SSLCertVerificationError)), None)
    if certificate is not None:
        return MODEL_REFUSED(
            f"the certificate of {call.address} was not accepted: {certificate.verify_message}; "
            "check `api_base:`, or set SSL_CERT_FILE to your own authority's certificate.",
            model=call.model,
        )
    if any(isinstance(link, (httpx.NetworkError, httpx.ProtocolError, OSError)) for link in chain):
        return ModelFailed(
            f"{call.address} does not answer; check that the model server runs, `api_base:` and the network.",
            model=call.model,
        )
    if call.api_key is None and (missing := _missing_keys(call.model)):
        return _key_error(call, missing)
    failed = f"the call of '{call.model}' failed: {_explanation(chain).text}."
    return _unknown(call) or ModelFailed(failed, model=call.model)


def retry_after_s(headers: Any) -> float | None:
    """Return what ``retry-after-ms`` or ``Retry-After`` (seconds or a date) asks for, in seconds from now."""
    if not headers:
        return None
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            return _seconds_until(str(value))
        return max(0.0, seconds) if math.isfinite(seconds) else None
    return None


def _seconds_until(date: str) -> float | None:
    try:
        when = email.utils.parsedate_to_datetime(date)
    except ValueError:
        return None
    return max(0.0, (when - utc_now()).total_seconds()) if when.tzinfo else None


# --- the retry policy of model calls, which is the only retry layer


MAX_ATTEMPTS = 3
"""Calls in all, the first included."""
BASE_S = 0.5
"""Shortest wait before the second attempt; it doubles with each attempt, and up to half is added as jitter."""
CAP_S = 60.0
"""Longest wait, even if the provider asks for more."""


def may_retry(attempt: int, error: BaseException) -> bool:
    """Return whether another attempt may follow attempt number ``attempt`` (from 1), which raised ``error``."""
    return attempt < MAX_ATTEMPTS and isinstance(error, Retryable)


def retry_delay_s(attempt: int, error: BaseException, random: Callable[[], float]) -> float:
    """Return the seconds to wait after attempt number ``attempt`` (from 1).

    The wait is what the provider asked for, plus up to a tenth of it as jitter, so that many callers do not retry
    at the same moment. ``random`` returns a number from 0 to 1.
    """
    delay_s = getattr(error, "retry_after_s", None)
    if delay_s is not None:
        return min(CAP_S, float(delay_s) * (1.0 + 0.1 * random()))
    return min(CAP_S, BASE_S * 2.0 ** (attempt - 1) * (1.0 + 0.5 * random()))


# --- what a provider's error body says, in each of the formats in use


MAX_CHARS = 400
"""Longest sentence that is quoted of a provider."""
MAX_READ_CHARS = 64 * 1024
"""Characters of a text that are looked at."""
FINAL_KINDS = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"})
"""A provider's names for an account that is used up; it sends them with 429, which otherwise asks to wait."""
_TEXTS = ("message", "msg", "detail", "details", "error_description", "title", "reason")
_INNER = ("error", "errors", "detail", "details", "message")
_KINDS = ("type", "code", "status")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderMessage:
    """A provider's explanation of an error."""

    text: str = ""
    """One line without secrets, at most ``MAX_CHARS``; empty where it gave no reason."""
    kinds: frozenset[str] = frozenset()
    """Its names for the failure, e.g. ``insufficient_quota``."""


def parse_error_body(body: Any) -> ProviderMessage:
    """Return what an error body says: decoded JSON, or a text that may hold JSON, HTML or a plain sentence."""
    if isinstance(body, bytes):
        body = body[:MAX_READ_CHARS].decode("utf-8", "replace")
    if isinstance(body, str):
        body = _decoded(body[:MAX_READ_CHARS])
    kinds: set[str] = set()
    return ProviderMessage(text=_line(_text(body, kinds, 0)), kinds=frozenset(kinds))


def _decoded(text: str) -> Any:
    """Return the JSON in a text, which a proxy may have prefixed with words of its own; else the text."""
    for start in sorted(position for position in (text.find("{"), text.find("[")) if position >= 0):
        end = text.rfind("}" if text[start] == "{" else "]")
        try:
            return orjson.loads(text[start : end + 1])
        except orjson.JSONDecodeError:
            continue
    return text


def _text(body: Any, kinds: set[str], depth: int) -> str:
    """Return the first sentence in a body, and gather the kinds on the way to it."""
    if isinstance(body, str):
        data = _decoded(body) if body.lstrip()[:1] in ("{", "[") and depth < 4 else body
        return _page(body) if isinstance(data, str) else _text(data, kinds, depth + 1)
    if isinstance(body, list) and body and depth < 4:
        return _text(body[0], kinds, depth + 1)
    if not isinstance(body, Mapping) or depth >= 4:
        return ""
    kinds.update(str(body[name])[:80] for name in _KINDS if isinstance(body.get(name), str | int))
    inner = (_text(body[name], kinds, depth + 1) for name in _INNER if isinstance(body.get(name), Mapping | list))
    direct = (_text(body[name], kinds, depth + 1) for name in (*_TEXTS, "error") if isinstance(body.get(name), str))
    return next(filter(None, (*inner, *direct)), "")


def _page(text: str) -> str:
    """Return the title of a page of HTML, or the text as it is."""
    start = text.lstrip()[:200].lower()
    if not start.startswith(("<!doctype html", "<html", "<head", "<body")):
        return text
    head = text[:8192]
    begin, end = head.lower().find("<title>"), head.lower().find("</title>")
    title = head[begin + 7 : end].strip() if 0 <= begin < end else ""
    return f"a page of HTML, '{title}'" if title else "a page of HTML"


def _line(text: str) -> str:
    redacted = redact_start(text.strip(), 4 * MAX_CHARS)
    return " ".join(redacted.split())[:MAX_CHARS].rstrip(". ")
