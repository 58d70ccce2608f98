"""Reads a policy from its files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from agents.governance.policy.compiled import CompiledRule, compiled
from agents.governance.policy.errors import PolicyInvalid
from agents.governance.policy.local import LocalPolicy
from agents.governance.policy.rule import CallMatch, PolicyFields, RuleFields, SpentAtLeast, TimeWindow
from config.clock import epoch_ms
from config.definitions.dotted_path import reason_of
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable
from config.definitions.yaml_lines import LinedYaml, Mistakes, dotted, read_yaml
from config.expressions.errors import ExpressionRefused
from config.forks import after_fork
from config.ids import canonical_digest
from config.policy_decision import Verdict
from config.text.names import did_you_mean
from config.watched_files import stamp_of

log = logging.getLogger(__name__)

SHIPPED = Path(__file__).with_name("shipped.yaml")
"""The rules that apply unless a policy switches them off by name."""
MAX_FILES = 100


def files_of(places: Sequence[Path]) -> list[Path]:
    """Return the files of a policy: each file named, and the ``.yaml`` files of each folder by name.

    Raises:
        PolicyInvalid: a place is not there, or there are too many files.
    """
    files: list[Path] = []
    for path in places:
        if path.is_dir():
            files += _listed(path)
        elif path.exists():
            files.append(path)
        else:
            raise PolicyInvalid(
                str(path), None, None, "is not there; create it, or correct CALLBOARD_POLICY (an empty one has none)."
            )
    if len(files) > MAX_FILES:
        raise PolicyInvalid(str(places[0]), None, None, f"the policy has more than {MAX_FILES} files; join some.")
    return files


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError as error:
        raise PolicyInvalid(str(folder), None, None, f"cannot be read: {error.strerror}.") from error


def read_policy(places: Sequence[Path], now_ms: Callable[[], int] = epoch_ms) -> LocalPolicy:
    """Return the policy of these files and folders, with the shipped rules.

    Raises:
        PolicyInvalid: a file cannot be used; the message names file, line, rule and what to write instead.
    """
    rules: list[CompiledRule] = []
    contents: list[Any] = []
    verdicts: dict[str, tuple[Verdict, Path]] = {}
    off: dict[str, tuple[Path, int]] = {}
    for path in (SHIPPED, *files_of(places)):
        with _only_policy_errors(str(path)):
            written = _read(path)
            fields = _validated(path, written)
            rules += _compiled(path, fields.rules, written)
            contents.append(written.data)
            _keep_defaults(verdicts, fields, path, written)
            off |= {name: (path, written.line_of(("switched_off", at))) for at, name in enumerate(fields.switched_off)}
    active_rules = _switched(rules, off)
    _require_consistent(active_rules)
    digest = canonical_digest(contents)
    chosen = {name: verdict for name, (verdict, _) in verdicts.items()}
    return LocalPolicy(active_rules, digest[:16], now_ms=now_ms, **chosen)


def _read(path: Path) -> LinedYaml:
    try:
        is_empty = path.is_file() and path.stat().st_size == 0
        return LinedYaml(data={}, lines={}) if is_empty else read_yaml(path, "`rules:` and a list of rules")
    except OSError as error:
        raise PolicyInvalid(str(path), None, None, f"cannot be read: {error.strerror}.") from error
    except DefinitionInvalid as error:
        line, field = error.facts["line"], error.facts["field"]
        problem = str(error).removeprefix(f"{path}:{line}:").removeprefix(f"{path}:").removeprefix(f" {field}:")
        if "has no fields" in problem and _is_only_comments(path):
            return LinedYaml(data={}, lines={})
        raise PolicyInvalid(
            str(path), line, None, f"{field}: {problem.strip()}" if field else problem.strip()
        ) from error


def _is_only_comments(path: Path) -> bool:
    lines = path.read_text("utf-8-sig").splitlines()
    return all(not line.strip() or line.lstrip().startswith("#") or line.strip() == "---" for line in lines)


@contextmanager
def _only_policy_errors(origin: str) -> Iterator[None]:
    """Turn any other exception of reading a policy into ``PolicyInvalid``."""
    try:
        yield
    except (PolicyInvalid, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a library may run out of stack
        raise PolicyInvalid(origin, None, None, f"cannot be read ({reason_of(error)}); make it simpler.") from error


def _compiled(path: Path, rules: Sequence[RuleFields], written: LinedYaml) -> Iterator[CompiledRule]:
    for index, fields in enumerate(rules):
        line = written.line_of(("rules", index))
        try:
            yield compiled(fields, str(path), line)
        except ExpressionRefused as error:
            at = written.line_of(("rules", index, "condition"))
            raise PolicyInvalid(str(path), at, fields.name, f"its condition {error}") from error


def _keep_defaults(
    verdicts: dict[str, tuple[Verdict, Path]], fields: PolicyFields, path: Path, written: LinedYaml
) -> None:
    for name in ("default", "model_default"):
        if name not in fields.model_fields_set:
            continue
        verdict, before = Verdict(getattr(fields, name)), verdicts.get(name)
        if before is not None and before[0] is not verdict:
            problem = f"`{name}: {verdict}` contradicts `{name}: {before[0]}` of {before[1]}; keep one of them."
            raise PolicyInvalid(str(path), written.line_of((name,)), None, problem)
        verdicts[name] = verdict, path


def _switched(rules: Sequence[CompiledRule], off: dict[str, tuple[Path, int]]) -> list[CompiledRule]:
    shipped = [rule.name for rule in rules if rule.file == str(SHIPPED)]
    for name, (path, line) in off.items():
        if name not in shipped:
            text = f"{did_you_mean(name, shipped)} There are: {', '.join(shipped)}."
            problem = f"there is no shipped rule '{name[:64]}' to switch off.{text}"
            raise PolicyInvalid(str(path), line, None, problem)
    return [rule for rule in rules if rule.name not in off or rule.file != str(SHIPPED)]


def _require_consistent(rules: Sequence[CompiledRule]) -> None:
    """Refuse two rules of one name, and two with the same conditions that decide differently."""
    names: dict[str, CompiledRule] = {}
    matches: dict[bytes, CompiledRule] = {}
    for rule in rules:
        before = names.setdefault(rule.name, rule)
        if before is not rule:
            where = f"{before.file}:{before.line}"
            raise PolicyInvalid(rule.file, rule.line, rule.name, f"{where} has a rule of this name; choose another.")
        twin = matches.setdefault(_matching_of(rule), rule)
        if twin is rule:
            continue
        if rule.verdict is not twin.verdict:
            says = f"says `{twin.verdict}` where this one says `{rule.verdict}`"
        elif any(_changes(twin).get(name, value) != value for name, value in _changes(rule).items()):
            says = "gives an argument another value"
        else:
            continue
        where = f"rule '{twin.name}' ({twin.file}:{twin.line}), which matches the same calls and {says}"
        problem = f"contradicts {where}; remove one, or make their conditions differ."
        raise PolicyInvalid(rule.file, rule.line, rule.name, problem)


def _changes(rule: CompiledRule) -> dict[str, Any]:
    return {**rule.fields.arguments, **{name: (source,) for name, source in rule.fields.computed.items()}}


def _matching_of(rule: CompiledRule) -> bytes:
    """Return what a rule matches, in a form that is equal for rules that are written alike."""
    fields = rule.fields
    parts = [None if part is None else _plain(part) for part in (fields.when, fields.unless)]
    condition = " ".join(fields.condition.split()) if fields.condition is not None else None
    return orjson.dumps([fields.point, *parts, condition], option=orjson.OPT_SORT_KEYS)


def _plain(match: CallMatch) -> dict[str, Any]:
    written = match.model_dump(mode="json", exclude_none=True)
    return {name: sorted(set(value)) if isinstance(value, list) else value for name, value in written.items()}


# --- what pydantic says


def _validated(path: Path, written: LinedYaml) -> PolicyFields:
    try:
        return PolicyFields.model_validate(written.data)
    except ValidationError as error:
        raise _first_error(error, path, written) from error


def _first_error(exc: ValidationError, path: Path, written: LinedYaml) -> PolicyInvalid:
    mistake = _MISTAKES.first(exc)
    location = mistake.place
    in_rule = len(location) > 1 and location[0] == "rules" and isinstance(location[1], int)
    field = dotted(location[2:] if in_rule else location)
    problem = f"{field}: {mistake.problem}" if field else mistake.problem
    return PolicyInvalid(
        str(path), written.line_of(location), _rule_at(written, location) if in_rule else None, problem
    )


def _rule_at(written: LinedYaml, location: tuple[Any, ...]) -> str:
    """Return the name of the rule at a place, or its number where its name is none."""
    rule = written.data["rules"][location[1]]
    name = rule.get("name") if isinstance(rule, dict) else None
    return name if isinstance(name, str) and 0 < len(name) <= 64 and name.isprintable() else f"number {location[1] + 1}"


_SENTENCES = {
    "missing name": "is missing; add it, for example `name: no-payments-at-night`.",
    "missing verdict": "is missing; add one of allow, constrain, require_approval, block, halt.",
    "missing reason": "is missing; say why, as a sentence for people and for the model.",
    "missing": "is missing; add it.",
    "enum": "has to be {expected}.",
    "literal_error": "has to be {expected}.",
    "string_type": "has to be text; put it in quotes.",
    "tuple_type": "has to be a list, for example `[one, two]`.",
    "dict_type": "has to be a mapping of names to values.",
    "model_type": "has to be a mapping of fields to values.",
    "string_pattern_mismatch name": "has to be small letters, digits, '-' and '_', at most 64.",
    "string_pattern_mismatch labels": "has to be small letters, digits, '-', '_' and '.', at most 64, a letter first.",
    "string_pattern_mismatch from": 'has to be a time such as "08:30", in quotes.',
    "string_pattern_mismatch to": 'has to be a time such as "18:00", in quotes.',
    "string_pattern_mismatch": "has to be a name or a pattern with `*` and `?`.",
}
"""The remedy by pydantic's name of an error, or by that and the field's name."""


def _section(location: tuple[Any, ...]) -> type[BaseModel]:
    """Return the section that has the field at this place."""
    inner: dict[Any, type[BaseModel]] = {
        "when": CallMatch,
        "unless": CallMatch,
        "spent": SpentAtLeast,
        "time": TimeWindow,
    }
    parents = [part for part in location[:-1] if isinstance(part, str)]
    if not parents:
        return PolicyFields
    return inner.get(parents[-1], RuleFields)


_MISTAKES = Mistakes(section_of=_section, sentences=_SENTENCES)

# --- the policy of a process


_reading = threading.Lock()


@after_fork
def _renew() -> None:
    global _reading
    _reading = threading.Lock()


class PolicySource:
    """The files of a policy, and what was last read from them."""

    def __init__(self, places: Sequence[Path] = ()) -> None:
        """``places``: files and folders; none has the shipped rules alone."""
        self._places = tuple(places)
        self._seen: object = None
        self._logged = ""
        self._policy: LocalPolicy | None = None

    def current(self) -> LocalPolicy:
        """Return the policy of the files as they are now, or the last valid one while they are not.

        A policy that is edited into an invalid one does not stop the fleet; the log names the problem once.

        Raises:
            PolicyInvalid: the files cannot be used, and this process has read no valid ones.
        """
        with _reading:
            seen = self._state()
            if seen != self._seen or self._policy is None:
                self._read(seen)
            assert self._policy is not None
            return self._policy

    def read_ahead(self) -> None:
        """Read the files if they have changed, so that ``current`` need not do so within a transaction."""
        with suppress(PolicyInvalid):  # ``current`` raises it where it is of consequence
            self.current()

    def _read(self, seen: object) -> None:
        try:
            self._policy, self._seen, self._logged = read_policy(self._places), seen, ""
        except PolicyInvalid as error:
            if self._policy is None:
                raise
            if not isinstance(error.__cause__, DefinitionUnreadable | OSError):  # a valid edit may be behind that
                self._seen = seen
            if str(error) != self._logged:
                self._logged = str(error)
                log.error(
                    "the policy %s stays in force, since the edited one cannot be used: %s", self._policy.version, error
                )

    def _state(self) -> object:
        """Return what differs after an edit."""
        try:
            return [stamp_of(path) for path in files_of(self._places)]
        except (PolicyInvalid, OSError) as error:
            return str(error)
