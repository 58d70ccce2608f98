"""The guardrails of a run, as the runner and the steps use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import ValidationError

from agents.governance.guardrails.errors import (
    SECRET_IN_ARGUMENTS,
    OutputBlocked,
    input_blocked,
    result_blocked,
)
from agents.governance.guardrails.scan import Scan, scan_of
from agents.governance.guardrails.stream import StreamRedactor
from bus.sealing import Original, sealer_of
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable
from config.definitions.guardrails.checks import Checks, GuardrailFields
from config.definitions.yaml_lines import dotted, read_yaml
from config.errors import ModelVisible, SettingInvalid
from config.redaction import own_redactor
from config.redaction.redacted_data import Detection, cleaned_data
from config.settings import ROOT, Settings
from config.watched_files import FileStamp, stamp_of

Seal = Callable[[str, Any], None]
"""Keeps an original: what it is (``bus.sealing.Original.what``), and the text or JSON data."""
PLAIN = GuardrailFields()


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardrailResult:
    """The outcome of the checks."""

    input_type: Literal["run_input", "tool_output", "tool_arguments", "model_text"]
    redacted_input: Any
    """What may be kept: without what was found, where ``validation_passed``."""
    validation_passed: bool
    """Whether no check blocks it."""
    reasons: tuple[str, ...] = ()
    """What was found: ``redacted: secrets``, ``blocked: email``; never the text itself."""

    @property
    def is_redacted(self) -> bool:
        return self.validation_passed and bool(self.reasons)


class Guardrails:
    """Checks and redacts before anything is stored, published or logged; safe for any thread."""

    def __init__(self, fields: GuardrailFields = PLAIN, seal: Seal | None = None) -> None:
        """``seal`` gets each original from which something was removed; None: none is kept."""
        self._fields, self._seal = fields, seal

    @property
    def keeps_originals(self) -> bool:
        return self._seal is not None

    def seal(self, what: str, original: Any) -> None:
        """Keep an original, where the deployment keeps any."""
        if self._seal is not None:
            self._seal(what, original)

    # --- what a client gives

    def check_input(self, text: str) -> GuardrailResult:
        """Return what is found in the input of a run; a blocked one is not returned."""
        detections = _too_long(self._fields.input, text)
        clean_text, more = scan_of(self._fields.input).clean(text)
        return _result("run_input", clean_text, [*detections, *more])

    def input(self, text: str) -> str:
        """Return the input of a run as it may be kept.

        Raises:
            INPUT_BLOCKED: it may not.
        """
        result = self.check_input(text)
        if not result.validation_passed:
            raise input_blocked(result.reasons)
        if result.is_redacted:
            self.seal("input", text)
        return str(result.redacted_input)

    def require_call(self, arguments: Mapping[str, Any]) -> None:
        """Return if a client's tool call may be accepted; its arguments are not changed, so nothing is replaced.

        Raises:
            INPUT_BLOCKED: they have a secret, or what is blocked in inputs.
        """
        text = orjson.dumps(dict(arguments)).decode()
        secrets = [Detection("secrets", "block")] if self.call(text)[1] is not None else []
        detections: list[Detection] = []
        cleaned_data(scan_of(self._fields.input), arguments, detections)
        detections = [detection for detection in detections if detection.action == "block"]
        if secrets or detections:
            raise input_blocked(_reasons_of([*secrets, *detections]))

    def given(self, value: Any) -> Any:
        """Return what a person gives to a run, JSON data, as it may be kept.

        Raises:
            INPUT_BLOCKED: it may not.
        """
        detections: list[Detection] = []
        clean_value = cleaned_data(scan_of(self._fields.input), value, detections)
        if _blocks(detections):
            raise input_blocked(_reasons_of(detections))
        return clean_value

    def metadata(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return a run's metadata without secrets."""
        return None if metadata is None else dict(cleaned_data(scan_of(PLAIN.input), metadata, []))

    # --- what tools get and return

    def call(self, arguments_text: str) -> tuple[str, ModelVisible | None]:
        """Return the arguments that a model wrote, as they may be recorded, and why the call may not be made.

        A call keeps its arguments or is refused, so that what is recorded, approved and sent is always the same.
        """
        redactor = own_redactor()
        clean = redactor.certain if self._fields.arguments == "refuse" else redactor.known
        if "\\" not in arguments_text:
            clean_arguments = clean(arguments_text)
            return clean_arguments, None if clean_arguments == arguments_text else SECRET_IN_ARGUMENTS()
        try:
            written = orjson.loads(arguments_text)
            clean_arguments = _each_text(written, clean)
        except (orjson.JSONDecodeError, RecursionError):  # the call fails for it, or for what is replaced in it
            clean_arguments = redactor.whole(arguments_text)
            return clean_arguments, None if clean_arguments == arguments_text else SECRET_IN_ARGUMENTS()
        return (
            (arguments_text, None)
            if clean_arguments == written
            else (orjson.dumps(clean_arguments).decode(), SECRET_IN_ARGUMENTS())
        )

    def output(self, tool: str, result: Any) -> Any:
        """Return a tool's result, JSON data, without what may not be kept.

        Raises:
            RESULT_BLOCKED: the result is kept back as a whole.
        """
        clean_result, detections = self._cleaned(result)
        if detections:
            self.seal(f"result {tool}", result)
        if _blocks(detections):
            raise result_blocked(_reasons_of(detections))
        return clean_result

    def check_output(self, result: Any) -> GuardrailResult:
        """Return what is found in a tool's result, JSON data."""
        return _result("tool_output", *self._cleaned(result))

    def _cleaned(self, result: Any) -> tuple[Any, list[Detection]]:
        checks, detections = self._fields.output, list[Detection]()
        if checks.max_chars is not None:
            detections += _too_long(checks, result if isinstance(result, str) else orjson.dumps(result).decode())
        scan = scan_of(checks)
        return (result if scan.finds_nothing(result) else cleaned_data(scan, result, detections)), detections

    def text(self, text: str) -> str:
        """Return a sentence about a call as it may be kept."""
        return self.scan.clean(text)[0]

    # --- what models write

    @property
    def max_answer_chars(self) -> int | None:
        """Longest text of one answer; None: no limit besides the model call's."""
        return self._fields.output.max_chars

    def stream(self) -> StreamRedactor:
        """Return what redacts one text of a model while it streams; it raises ``OutputBlocked``."""
        return StreamRedactor(self.scan, _require_unblocked)

    @property
    def scan(self) -> Scan:
        """The checks of output, with the secrets that are known now."""
        return scan_of(self._fields.output)


UNGUARDED = Guardrails()
"""The guardrails where nothing is configured: secrets are replaced."""


def _require_unblocked(detections: Sequence[Detection]) -> None:
    if _blocks(detections):
        raise OutputBlocked(_reasons_of(detections))


def _too_long(checks: Checks, text: str) -> list[Detection]:
    is_too_long = checks.max_chars is not None and len(text) > checks.max_chars
    return [Detection(f"longer than {checks.max_chars:,} characters", "block")] if is_too_long else []


def _result(input_type: Any, clean_value: Any, detections: Sequence[Detection]) -> GuardrailResult:
    is_blocked = _blocks(detections)
    return GuardrailResult(
        input_type=input_type,
        redacted_input=None if is_blocked else clean_value,
        validation_passed=not is_blocked,
        reasons=_reasons_of(detections),
    )


def _each_text(value: Any, clean: Callable[[str], str]) -> Any:
    """Return JSON data with each text in it replaced."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _each_text(item, clean) for key, item in value.items()}
    return [_each_text(item, clean) for item in value] if isinstance(value, list) else value


def _reasons_of(detections: Iterable[Detection]) -> tuple[str, ...]:
    """Return each finding once, as a reason."""
    return tuple(dict.fromkeys(f"{_DONE[detection.action]}: {detection.name}" for detection in detections))


def _blocks(detections: Iterable[Detection]) -> bool:
    """Return whether one of the checks that found something blocks."""
    return any(detection.action == "block" for detection in detections)


_DONE = {"redact": "redacted", "block": "blocked"}

# --- those of a deployment and of a run


def guardrails_of(settings: Settings, agent: GuardrailFields = PLAIN) -> GuardrailFields:
    """Return the guardrails of an agent's runs: the stricter of the deployment's and the agent's, check by check.

    Raises:
        SettingInvalid: the deployment's file cannot be used.
        DefinitionUnreadable: the system does not let this process read it now.
    """
    if not settings.guardrails_file:
        return agent
    path = (ROOT / settings.guardrails_file).resolve()
    try:
        stamp = stamp_of(path)
    except FileNotFoundError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except OSError as error:
        raise DefinitionUnreadable.of(path, error) from error
    return _joined(_read(path, stamp), agent)


def sealing_guardrails(settings: Settings, agent: GuardrailFields) -> tuple[Guardrails, list[Original]]:
    """Return the guardrails of a new run, and the list to which they add the originals that are to be sealed.

    Raises:
        SettingInvalid, DefinitionUnreadable: as ``guardrails_of``.
    """
    sealer, originals = sealer_of(settings), list[Original]()

    def seal(what: str, value: Any) -> None:
        assert sealer is not None
        originals.append(Original(what=what, value=value, sealer=sealer))

    return Guardrails(guardrails_of(settings, agent), seal if sealer is not None else None), originals


def guard_of(settings: Settings) -> Guardrails:
    """Return what checks a person's answers: the guardrails of the deployment, as they are now.

    Raises:
        SettingInvalid, DefinitionUnreadable: as ``guardrails_of``.
    """
    return Guardrails(guardrails_of(settings))


@lru_cache(maxsize=256)
def _joined(deployment: GuardrailFields, agent: GuardrailFields) -> GuardrailFields:
    return deployment.stricter(agent)


@lru_cache(maxsize=4)
def _read(path: Path, stamp: FileStamp) -> GuardrailFields:
    """Return the file's checks; ``stamp`` makes an edited file be read again."""
    del stamp
    try:
        return GuardrailFields.model_validate(read_yaml(path, "`input: ...` or `output: ...`").data)
    except DefinitionUnreadable:
        raise
    except DefinitionInvalid as error:
        raise _unusable(path, str(error)) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _unusable(path, f"{dotted(first['loc'])}: {first['msg']}") from error


def _unusable(path: Path, problem: str) -> SettingInvalid:
    return SettingInvalid(f"the file of CALLBOARD_GUARDRAILS_FILE, {path}, cannot be used: {problem}.")
