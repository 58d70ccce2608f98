"""What the engine is sent, and what it answers.

It gets arguments and results without secrets, and of bounded size; a text that it did not change keeps what was hidden
from it. Its answer is read strictly: what is not understood is a failure, never a permission.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import orjson

from agents.governance.engine.errors import EngineUnavailable
from config.policy_decision import Verdict
from config.redaction import redact_start

MAX_REASONS = 20
MAX_REASON = 500
"""Characters of one reason."""
INPUT: Final = "activity_input"
OUTPUT: Final = "activity_output"
InputType = Literal["activity_input", "activity_output"]
_ACTIONS = {"continue": Verdict.ALLOW, "stop": Verdict.HALT} | {str(verdict): verdict for verdict in Verdict}
_NO_CHANGE = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineAnswer:
    """What the engine decides about one event."""

    verdict: Verdict
    reason: str = ""
    rule: str = ""
    """The engine's name of the policy that decided."""
    redacted: Any = _NO_CHANGE
    """What takes the place of the input or output that was sent."""
    is_valid: bool = True
    """Whether its guardrails let the input or output pass."""

    @property
    def is_changed(self) -> bool:
        return self.redacted is not _NO_CHANGE

    def unchanged(self) -> EngineAnswer:
        """Return the answer without what it gives in place of the input or output."""
        return replace(self, redacted=_NO_CHANGE)


def read_answer(body: bytes, sent: Mapping[str, Any], input_type: InputType) -> EngineAnswer:
    """Return the decision about the event that was ``sent``.

    Raises:
        EngineUnavailable: it is no JSON object, has no known action, or is about another event.
    """
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise EngineUnavailable(problem="its answer is not JSON") from error
    if not isinstance(answer, dict):
        raise EngineUnavailable(problem="its answer is not a JSON object")
    _require_same_event(answer, sent)
    verdict, reason = _verdict(answer), _text(answer, "reason")
    rule = _text(answer, "policy_id") or _text(answer, "rule")
    guardrails = answer.get("guardrails", answer.get("guardrails_result"))
    if guardrails is None:
        return EngineAnswer(verdict=verdict, reason=reason, rule=rule)
    if not isinstance(guardrails, dict):
        raise EngineUnavailable(problem="its guardrails are not a JSON object")
    return _guarded(guardrails, input_type, EngineAnswer(verdict=verdict, reason=reason, rule=rule))


def _require_same_event(answer: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    for name in ("event_id", "run_id", "workflow_id", "activity_id", "event_type"):
        if answer.get(name) is not None and answer[name] != sent.get(name):
            raise EngineUnavailable(problem=f"its answer is about another event: its {name} differs")


def _verdict(answer: Mapping[str, Any]) -> Verdict:
    """Return the action; where ``verdict`` and ``action`` are both given, the stricter one."""
    values = [answer[name] for name in ("action", "verdict") if answer.get(name) is not None]
    verdicts = [_ACTIONS.get(value) if isinstance(value, str) else None for value in values]
    if not verdicts or None in verdicts:
        raise EngineUnavailable(problem="its answer has no action that is known")
    return max((verdict for verdict in verdicts if verdict is not None), key=tuple(Verdict).index)


def _guarded(guardrails: Mapping[str, Any], input_type: InputType, answer: EngineAnswer) -> EngineAnswer:
    if guardrails.get("input_type", input_type) != input_type:
        raise EngineUnavailable(problem=f"its guardrails are not about the {input_type}")
    is_valid = guardrails.get("validation_passed", True)
    if not isinstance(is_valid, bool):
        raise EngineUnavailable(problem="its validation_passed is neither true nor false")
    reasons = _reasons(guardrails.get("reasons"))
    return EngineAnswer(
        verdict=answer.verdict,
        reason=" ".join(filter(None, (answer.reason, *reasons))),
        rule=answer.rule,
        redacted=guardrails["redacted_input"] if guardrails.get("redacted_input") is not None else _NO_CHANGE,
        is_valid=is_valid,
    )


def _reasons(raw_reasons: object) -> Sequence[str]:
    """Return reasons, each a text or an object with ``reason``."""
    if raw_reasons is None:
        return ()
    if not isinstance(raw_reasons, list):
        raise EngineUnavailable(problem="its reasons are not a list")
    texts = (entry.get("reason") if isinstance(entry, dict) else entry for entry in raw_reasons[:MAX_REASONS])
    return [text[:MAX_REASON] for text in texts if isinstance(text, str)]


def _text(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    return value[:MAX_REASON] if isinstance(value, str) else ""


# --- what it is sent


MAX_TEXT = 64 * 1024
"""Characters of one text."""
MAX_SHOWN = 256 * 1024
"""Bytes of all of it, as JSON."""
_CUT = "… (cut)"


def redact_for_engine(value: Any) -> tuple[Any, bool]:
    """Return JSON data without secrets, and whether it is less than ``value``, or of another shape.

    Long texts are cut, and data that is too long as a whole becomes a text.
    """
    hidden = _hidden(value)
    try:
        encoded = orjson.dumps(hidden)
    except TypeError:  # half a surrogate pair, a number beyond 64 bits
        return json.dumps(hidden)[:MAX_TEXT] + _CUT, True
    if len(encoded) > MAX_SHOWN:
        return encoded[:MAX_TEXT].decode("utf-8", "ignore") + _CUT, True
    return hidden, _is_cut(value, hidden)


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return _hidden_start(value)
    if isinstance(value, dict):
        return {_hidden_start(str(name)): _hidden(item) for name, item in value.items()}
    return [_hidden(item) for item in value] if isinstance(value, list | tuple) else value


def _hidden_start(text: str) -> str:
    start = redact_start(text, MAX_TEXT)
    is_cut = len(text) > MAX_TEXT or (len(start) == MAX_TEXT and start != text)  # a replacement may be longer
    return start + _CUT if is_cut else start


def _is_cut(value: Any, hidden: Any) -> bool:
    if isinstance(value, str):
        return bool(value != hidden and hidden.endswith(_CUT))
    if isinstance(value, dict):  # names that differ only in their secrets have one place
        pairs = zip(value.items(), hidden.items(), strict=False)
        return len(value) != len(hidden) or any(_is_cut(str(a), b) or _is_cut(x, y) for (a, x), (b, y) in pairs)
    return isinstance(value, list | tuple) and any(map(_is_cut, value, hidden))


def merged(original: Any, sent: Any, returned: Any) -> Any:
    """Return ``original``, which was sent whole, with the engine's changes: what it returned as sent is no change."""
    if returned == sent and type(returned) is type(sent):
        return original
    if isinstance(returned, dict) and isinstance(sent, dict) and isinstance(original, dict):
        before = {redact_start(str(name), MAX_TEXT): name for name in original}
        return {
            before.get(name, name): merged(original[before[name]], sent[name], item) if name in before else item
            for name, item in returned.items()
        }
    if isinstance(returned, list) and isinstance(sent, list) and len(returned) == len(sent) == len(original):
        return [merged(*three) for three in zip(original, sent, returned, strict=True)]
    return returned
