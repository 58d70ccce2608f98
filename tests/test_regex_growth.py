"""No regular expression of the sources, Python and JavaScript, takes more than linear time, whatever the text."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from config.folders import FOLDERS
from tests.regex_growth import problems

ROOT = Path(__file__).parent.parent
FUNCTIONS = frozenset({"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
USES_RE = re.compile(r"\bre\s*\.")
SOURCES = sorted(path for room in FOLDERS for path in (ROOT / room).rglob("*.py") if USES_RE.search(path.read_text()))
"""The files that use ``re``: parsing the others takes seconds, and so does a test for each."""
BOUNDED = {
    **{
        f"agents/models/demo/{name}.py": "a sentence is cut at 600 characters; tests/test_hostile_text.py drives them"
        for name in ("reader", "schema_filler", "tool_calls")
    },
    "agents/tools/calculator.py": "an expression has at most 500 characters",
    "cli/dev/commands/docs.py": "the documents are the repository's own",
    **{f"web/page_{name}.py": "the page's files are the repository's own" for name in ("files", "modules")},
}
"""Where a text is short before a pattern sees it, and why."""
NOT_CUT = ("result", "content", "text_of")
"""Names by which such a file reaches text that is not: patterns that look at it have to be linear all the same."""
NEVER_FAILS = {
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)': "behind its possessive loops stands a quote, or the text ends",
    r'(?:([A-Za-z_]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))': "its last part takes what it began with",
    r".+?[.!?](?=\s|$)|.+$": "of 600 characters without a line end (ThinkingItem.js)",
}
"""Patterns whose run ends in what always matches, which the analysis cannot see."""


def _patterns(path: Path) -> Iterator[tuple[int, str, int, str, str]]:
    """Yield line, pattern, flags, the function of each use of ``re`` in a file, and what is looked at, as written."""
    tree = ast.parse(path.read_text())
    uses, texts = _uses(tree), _texts(tree)
    module: ModuleType | None = None
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
            continue
        module = module or importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        pattern = _text(node.args[0], module)
        how = uses.get(node.lineno, "search") if node.func.attr == "compile" else node.func.attr
        looked_at = texts.get(node.lineno, "") if node.func.attr == "compile" else _looked_at(node, 1)
        yield node.lineno, pattern, _flags(node), how, looked_at


def _texts(tree: ast.Module) -> dict[int, str]:
    """Return by line what a pattern compiled into a name looks at, as it is written."""
    lines = _names(tree)
    texts: dict[int, list[str]] = {line: [] for line in lines.values()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            value = node.func.value
            if isinstance(value, ast.Name) and value.id in lines:
                texts[lines[value.id]].append(_looked_at(node, 0))
    return {line: " ".join(looked_at) for line, looked_at in texts.items()}


def _looked_at(call: ast.Call, first: int) -> str:
    return " ".join(ast.unparse(item) for item in call.args[first:])


def _names(tree: ast.Module) -> dict[str, int]:
    return {
        target.id: node.value.lineno
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _uses(tree: ast.Module) -> dict[int, str]:
    """Return by line how a pattern compiled into a name is used, where it is only matched from the start."""
    lines = _names(tree)
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in lines:
            used.setdefault(node.value.id, set()).add(node.attr)
    return {
        lines[name]: "fullmatch" if how == {"fullmatch"} else "match"
        for name, how in used.items()
        if how <= {"match", "fullmatch"}
    }


def _text(node: ast.expr, module: ModuleType) -> str:
    """Return a pattern as it will be; what is only known later stands as a letter."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, module) for part in node.values)
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    try:
        value = eval(compile(ast.Expression(inner), "pattern", "eval"), vars(module))
    except NameError:
        return "x"
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _flags(node: ast.Call) -> int:
    arguments = [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg == "flags")]
    flags = [item for item in arguments if "re." in ast.unparse(item)]
    return int(sum(eval(compile(ast.Expression(item), "flags", "eval"), {"re": re}) for item in flags))


SCRIPTS = sorted(path for path in (ROOT / "web").rglob("*.js") if "vendor" not in path.parts)
_LITERAL = re.compile(
    r"(?P<skip>//[^\n]*+|/\*(?s:.*?)\*/|'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\"|`(?:[^`\\]|\\.)*+`)"
    r"|(?P<before>[=(,:!&|?{};\[>+]|\breturn|^)\s*/(?![*/])"
    r"(?P<pattern>(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*+\])++)/(?P<flags>[dgimsuvy]*)",
    re.MULTILINE,
)
_FROM_JS = (
    (r"\(\?<(?![=!])", "(?P<"),
    (r"\[\^\]", r"[\\s\\S]"),
    (r"\\/", "/"),
    (r"\\[pP]\{[^}]*\}", r"\\w"),
    (r"\\u\{[^}]*\}", "x"),
)
"""What JavaScript writes otherwise, and how Python does."""


def _script_patterns(path: Path) -> Iterator[tuple[int, str, int]]:
    """Yield line, pattern in Python's words, and flags of each regular expression of a script."""
    text = path.read_text()
    for match in _LITERAL.finditer(text):
        if match["pattern"] is None:
            continue
        pattern = match["pattern"]
        for theirs, ours in _FROM_JS:
            pattern = re.sub(theirs, ours, pattern)
        flags = sum(flag for letter, flag in (("i", re.I), ("m", re.M), ("s", re.S)) if letter in match["flags"])
        yield text.count("\n", 0, match.start("pattern")) + 1, pattern, flags


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_pattern_grows_faster_than_its_text(path: Path) -> None:
    is_bounded = str(path.relative_to(ROOT)) in BOUNDED
    findings = []
    for line, pattern, flags, how, looked_at in _patterns(path):
        if is_bounded and not re.search(rf"\b(?:{'|'.join(NOT_CUT)})\b", looked_at):
            continue
        slow = problems(pattern, flags, searched=how not in ("match", "fullmatch"), whole=how == "fullmatch")
        if slow and pattern not in NEVER_FAILS:
            findings.append(f"{path.relative_to(ROOT)}:{line}: {pattern!r}: {', '.join(slow)}")

    assert findings == []


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")  # JavaScript has none
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_pattern_of_the_page_grows_faster_than_its_text(path: Path) -> None:
    findings = [
        f"{path.relative_to(ROOT)}:{line}: {pattern!r}: {', '.join(slow)}"
        for line, pattern, flags in _script_patterns(path)
        if pattern not in NEVER_FAILS and (slow := problems(pattern, flags))
    ]

    assert findings == []


def test_the_page_has_patterns_to_look_at() -> None:
    assert sum(len(list(_script_patterns(path))) for path in SCRIPTS) > 30


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"^\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*$", r"^(?:.*?)\s*\n", r"x.*  +y"),
        *r"(a+)+$ (?:a*b*)*c \s*,\s* ://[^@\s]*@ \s+$ \beyJ[A-Za-z0-9_-]{8,}\. ^a*[ab]*c (\w+\s?)*$ a{0,5000}b".split(),
    ],
)
def test_a_slow_pattern_is_found(pattern: str) -> None:
    assert problems(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *r"^[a-z]+:[0-9]+$ \b\w+: [^,]+ [\[\]{}] a{1,20}b \S+\s*|\s+ ^a*b*$ \bsk-[A-Za-z0-9]{16,} #\d+\b".split(),
        r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?',
        r"(?:\w+ )*",
        r"bearer\s+(?:[a-z]{8,})",
    ],
)
def test_a_linear_pattern_is_not(pattern: str) -> None:
    assert problems(pattern) == []
