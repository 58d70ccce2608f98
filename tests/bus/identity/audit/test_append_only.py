"""No code changes or deletes an entry, or moves a head but to the next entry; the database refuses it besides."""

from __future__ import annotations

import ast

from config.folders import FOLDERS, ROOT

CHANGING = {"update", "delete"}
HEADS_MOVED_BY = {"bus/identity/audit/recording.py", "bus/identity/audit/due_heads.py"}


def changed_tables() -> set[tuple[str, str]]:
    """Return the files that change or delete rows, each with the table: ``update(audit)``, ``audit.delete()``, SQL."""
    changes: set[tuple[str, str]] = set()
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if (text := path.read_text()) and "audit" not in text:
            continue
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CHANGING:
                changes |= {(name, argument.id) for argument in node.args if isinstance(argument, ast.Name)}
            if isinstance(node, ast.Attribute) and node.attr in CHANGING and isinstance(node.value, ast.Name):
                changes.add((name, node.value.id))
    return changes


def test_no_code_changes_an_entry() -> None:
    changes = {(name, table) for name, table in changed_tables() if table in ("audit", "audit_heads")}

    assert changes == {(name, "audit_heads") for name in HEADS_MOVED_BY}
