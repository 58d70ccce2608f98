"""Which resources of a server an agent's file names."""

from __future__ import annotations

import pytest

from agents.tools.mcp.reading_tools import by_server, is_named, may_name


def test_lines_are_put_together_by_server() -> None:
    lines = ["mcp:docs/readme://one", "mcp:files", "mcp:docs/wiki://*"]

    assert by_server(lines) == {"docs": ("readme://one", "wiki://*"), "files": ("*",)}


@pytest.mark.parametrize(
    ("pattern", "uri", "named"),
    [
        ("*", "docs://anything/at/all?x=1", True),
        ("docs://readme", "docs://readme", True),
        ("docs://readme", "docs://readme2", False),
        ("docs://readme", "DOCS://readme", False),
        ("docs://*", "docs://", True),
        ("docs://*", "doc://x", False),
        ("docs://*/page", "docs://a/b/page", True),
        ("docs://*/page", "docs://page", False),
        ("docs://*a*b*", "docs://xaxb", True),
        ("docs://*a*b*", "docs://xbxa", False),
        ("docs://aba*ba", "docs://aba", False),
        ("file:///srv/docs/*", "file:///srv/docs/a.txt", True),
        ("file:///srv/docs/*", "file:///srv/docs/a..b.txt", True),
        ("file:///srv/docs/*", "file:///srv/docs-evil/a.txt", False),
        ("file:///srv/docs/*", "file:///srv/docs/../../etc/passwd", False),
        ("file:///srv/docs/*", "file:///srv/docs/..", False),
        ("file:///srv/docs/*", "file:///srv/docs/%2e%2E/%2e%2e/etc/passwd", False),
        ("file:///srv/docs/*", "file:///srv/docs/..%2f..%2fetc/passwd", False),
        ("file:///srv/docs/*", "file:///srv/docs/%252e%252e/etc/passwd", False),
        ("file:///srv/docs/*", "file:///srv/docs/..\\..\\etc", False),
        ("file:///srv/docs/*", "file:///srv/docs/a\0.txt", False),
        ("file:///srv/docs/*", "file:///srv/docs/a\n.txt", False),
        ("file:///srv/docs/*", "file:///srv/docs/\ud800", False),
        ("file:///srv/docs/../*", "file:///srv/docs/../x", False),
        ("file:///srv/docs/../x", "file:///srv/docs/../x", True),
        ("*", "x" * 2001, False),
        ("*", "", True),
    ],
)
def test_a_uri_is_named_by_a_pattern(pattern: str, uri: str, named: bool) -> None:
    assert is_named(uri, [pattern]) is named


@pytest.mark.parametrize(
    ("pattern", "template", "may"),
    [
        ("*", "docs://pages/{name}", True),
        ("docs://*", "docs://pages/{name}", True),
        ("docs://pages/intro", "docs://pages/{name}", True),
        ("docs://readme", "docs://pages/{name}", False),
        ("docs://*", "{anything}", True),
    ],
)
def test_a_template_may_make_a_named_uri(pattern: str, template: str, may: bool) -> None:
    assert may_name(template, [pattern]) is may
