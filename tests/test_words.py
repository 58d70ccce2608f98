"""Words that code and documents do not use: each hides what the thing is, or who acts."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from config.folders import FOLDERS, ROOT

FILES = sorted(path for room in (*FOLDERS, "clients", "tests") for path in (ROOT / room).rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if path.name != "test_words.py")
SOURCES = sorted(path for room in FOLDERS for end in ("py", "js", "lua") for path in (ROOT / room).rglob(f"*.{end}"))
CLIENTS = [path for path in FILES if path.is_relative_to(ROOT / "clients")]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS += sorted((ROOT / "clients").rglob("*.md"))
HIDING = re.compile(r"\bits_|\bas\s+wrong\b")
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
LINK_TARGET = re.compile(r"\]\([^)]*\)")
NO_ACTOR = re.compile(
    r"\b(?:nobody|whoever|somebody|everybody|anybody|hears?|heard|unheard|told|untold|by lot|the dead|foresaw|foreseen"
    r"|stumbled|go(?:es|ing)?[ _]on|went[ _]on|let(?:s|ting)?[ _]go)\b",
    re.IGNORECASE,
)
PRIVATE_NAMES = re.compile(r"\b(?!test_house\b)(?:\w+_)?(?:world|house|hands|upkeep)\b")
QUOTING = {
    "config/database/migrations/versions/0002_survival.py",
    "tests/backends.py",
}
"""Files with the name of an index, and with a user of Unix."""


def test_no_name_hides_what_it_is() -> None:
    hiding = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        if HIDING.search(text := path.read_text())  # parsing every file takes seconds
        for name in sorted(set(names_in(ast.parse(text))))
        if name.startswith("its_") or name == "as wrong"
    ]

    assert hiding == [], "name the thing: `run_id`, not `its_id`; `except ... as error`"


def test_variables_are_nouns() -> None:
    participles = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        if PARTICIPLE.search(text := path.read_text())  # parsing every file takes seconds
        for name in sorted(PARTICIPLES & variables_in(ast.parse(text)))
    ]

    assert participles == [], "a variable tells the type: `row`, `agent`, `match`, `answer`, `limit`"


PARTICIPLES = {"found", "one", "asked", "known", "said", "given", "wanted", "shown", "made"}
PARTICIPLE = re.compile(
    rf"(?:^ *|for |as |, |\(|\*|lambda )(?:{'|'.join(sorted(PARTICIPLES))})(?= in |, |\)|:| :?=|=)", re.MULTILINE
)


def variables_in(tree: ast.AST) -> set[str]:
    """Return the names of variables and parameters, without the fields of classes."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return names - {ast.unparse(target) for node in classes for target in targets_in(node)}


def targets_in(tree: ast.ClassDef) -> Iterator[ast.expr]:
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign):
            yield statement.target
        elif isinstance(statement, ast.Assign):
            yield from statement.targets


def test_one_name_is_one_class() -> None:
    names = Counter(name for path in SOURCES if path.suffix == ".py" for name in CLASS.findall(path.read_text()))

    assert [name for name, count in names.items() if count > 1] == []


def test_documents_name_who_acts() -> None:
    by_path = {path.name: words for path in DOCUMENTS if (words := words_without_actor(path.read_text()))}

    assert by_path == {}, (
        "name the worker, client, reaper, relay, observer or person; events are delivered, clients are notified"
    )


def test_sources_name_who_acts() -> None:
    by_path = {
        str(path.relative_to(ROOT)): words
        for path in (*SOURCES, *CLIENTS, *TESTS)
        if str(path.relative_to(ROOT)) not in QUOTING and (words := words_without_actor(path.read_text()))
    }

    assert by_path == {}, "name who acts, in docstrings, comments, messages and names; a run continues or is released"


def test_fixtures_have_the_names_of_their_classes() -> None:
    by_path = {
        str(path.relative_to(ROOT)): names for path in TESTS if (names := PRIVATE_NAMES.findall(path.read_text()))
    }

    assert by_path == {}, "harness, fleet_harness, owner, maintenance: the class's name in small letters"


def words_without_actor(text: str) -> list[str]:
    """Return the words of this text that leave out who acts, or that say "deliver" by a figure of speech."""
    return sorted({word.lower() for word in NO_ACTOR.findall(LINK_TARGET.sub("]", text))})


def names_in(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a module gives or uses; that of a caught exception with ``as`` before it."""
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(name=str(name)):
                yield f"as {name}"
            case _:
                yield from names_of(node)


def names_of(node: ast.AST) -> tuple[str, ...]:
    """Return the names that this node gives or uses."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.keyword(arg=str(name)):
            return (name,)
        case _:
            return ()
