"""The page's files as they lie there and as they are served: nothing in them that the content policy would refuse."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
from pathlib import Path

import brotli
import pytest

from bus.payloads import EVENT_TYPES
from tests.web.conftest import eventually
from web.page_files import VERSION_CHARS, PageFiles
from web.page_modules import EXPORT, EXPORTED, IMPORT

STATIC = Path(__file__).parents[2] / "web" / "static"
SHELLS = {path.name: path.read_text() for path in STATIC.glob("*.html")}
INDEX = SHELLS["index.html"]
MODULES = sorted(path for path in STATIC.rglob("*.js"))
FORBIDDEN = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|setHTML|document\.write|DOMParser|createContextualFragment)\b"
    r"|\beval\(|\bnew Function\b"
)
ANY_IMPORT = re.compile(r'(?:^(?:import|export) .*from |\bimport\()"([^"]+)"', re.MULTILINE)


def test_each_import_and_export_has_the_form_that_is_joined() -> None:
    forms = (IMPORT, EXPORT, EXPORTED)
    lines = {line for module in MODULES for line in re.findall(r"^(?:import|export)\b.*", module.read_text(), re.M)}

    assert [line for line in lines if not any(form.match(line) for form in forms)] == []


def test_what_others_have_written_is_as_it_was_released_with_its_license() -> None:
    folder = STATIC / "vendor" / "uPlot"
    digests = dict(re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", (folder / "README.md").read_text(), re.M))

    files = {path.name: path for path in folder.iterdir() if path.name != "README.md"}

    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == digests
    assert "LICENSE" in digests
    assert [path.name for path in (STATIC / "vendor").iterdir()] == ["uPlot"]


def test_it_is_served_unchanged_and_by_no_shell(door) -> None:
    name = "vendor/uPlot/uPlot.esm.js"

    assert door.get(f"/static/{name}").data == (STATIC / name).read_bytes()
    assert not [shell for shell in SHELLS.values() if "vendor/" in shell]


def test_every_module_is_used() -> None:
    imported = {(path.parent / name).resolve() for path in MODULES for name in ANY_IMPORT.findall(path.read_text())}
    entries = {STATIC / name for shell in SHELLS.values() for name in re.findall(r'src="/static/([^"]+)"', shell)}

    assert set(MODULES) == imported | entries


def test_the_story_has_an_entry_for_each_event_type() -> None:
    table = re.search(r"^const EVENTS = \{\n(.*?)^\};", (STATIC / "state" / "story.js").read_text(), re.M | re.S)

    assert table is not None
    assert sorted(re.findall(r"^  (\w+): \{ fold: ", table[1], re.M)) == sorted(EVENT_TYPES)


@pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS.keys())
def test_the_shell_names_only_files_that_are_there(shell: str) -> None:
    named = re.findall(r'(?:href|src)="/static/([^"]+)"', shell)

    assert [name for name in named if not (STATIC / name).is_file()] == []


@pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS.keys())
def test_the_shell_has_nothing_inline_and_nothing_foreign(shell: str) -> None:
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|https?://", shell)


def test_no_module_makes_markup_or_code_from_text() -> None:
    assert [module.name for module in MODULES if FORBIDDEN.search(module.read_text())] == []


def test_every_import_names_a_file_that_is_there() -> None:
    named = [(module, name) for module in MODULES for name in ANY_IMPORT.findall(module.read_text())]

    assert [(module.name, name) for module, name in named if not (module.parent / name).is_file()] == []


# --- as they are served --------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_shell_names_each_file_by_its_content(door, path: str) -> None:
    shell = door.get(path).text
    imports = json.loads(re.findall(r'<script type="importmap">(.*?)</script>', shell)[0])["imports"]
    named = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', shell)) | set(imports.values())

    answers = {url: door.get(url) for url in named}

    assert {"/static/index.js", "/static/late.js", "/static/vendor/uPlot/uPlot.esm.js"} < set(imports)
    assert imports["/static/style/graph.css"] == imports["/static/style/run.css"]
    assert "/static/views/graph/GraphView.js" not in imports  # a part of late.js
    for url, answer in answers.items():
        assert url.endswith(f"?v={hashlib.sha256(answer.data).hexdigest()[:VERSION_CHARS]}")
        assert answer.headers["Cache-Control"] == "max-age=31536000, immutable"


@pytest.mark.parametrize("query", ["", "?v=", "?v=000000000000"])
def test_a_file_of_another_version_is_not_kept(door, query: str) -> None:
    answer = door.get(f"/static/app.js{query}")

    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-cache")


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/index.css", "/favicon.ico", "/openapi.json"])
def test_each_client_gets_the_form_that_it_takes(door, path: str) -> None:
    whole = door.get(path)
    compressed = door.get(path, headers={"Accept-Encoding": "br;q=0, gzip;q=0.8"})
    refused = door.get(path, headers={"Accept-Encoding": "gzip;q=0"})
    again = door.get(path, headers={"Accept-Encoding": "gzip", "If-None-Match": compressed.headers["ETag"]})

    assert (whole.headers.get("Content-Encoding"), compressed.headers["Content-Encoding"]) == (None, "gzip")
    assert gzip.decompress(compressed.data) == whole.data == refused.data
    assert {answer.headers["Vary"] for answer in (whole, compressed, refused)} == {"Accept-Encoding"}
    assert (again.status_code, again.data) == (304, b"")


def test_the_content_policy_allows_the_import_map_and_no_other_script_inside_the_shell(door) -> None:
    answer = door.get("/")
    scripts = re.findall(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", answer.text)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]

    sources = re.findall(r"script-src ([^;]*);", answer.headers["Content-Security-Policy"])

    assert sources == [f"'self' 'sha256-{digests[0]}'"]
    assert len(digests) == 1


def test_an_edited_file_is_served_with_the_next_shell(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<link rel="stylesheet" href="/static/a.css">\n')
    (tmp_path / "a.css").write_text("/* the first */\np { color: red }\n")
    files = PageFiles(tmp_path)
    before = files.shells["index.html"].content

    (tmp_path / "a.css").write_text("p { color: blue }\n")
    os.utime(tmp_path / "a.css", (0, 0))
    files.refresh()

    assert files.files["index.css"].content == b"p{color:blue}\n"
    assert files.shells["index.html"].content != before


def test_a_stylesheet_that_is_gone_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<link rel="stylesheet" href="/static/a.css">\n')
    (tmp_path / "a.css").write_text("p { color: red }\n")
    (tmp_path / "b.css").write_text("p { color: blue }\n")
    files = PageFiles(tmp_path)
    assert "/static/b.css" in files.import_map

    (tmp_path / "b.css").unlink()
    files.refresh()

    assert files.import_map == '{"imports":{}}'


def test_a_comment_leaves_an_empty_line(tmp_path: Path) -> None:
    text = '// one\n/** two\n * lines */\nlet url = "https://x"; // three\n  // four\n'
    text += "  /** @type {A} */ (end)();\n/* */ more(/** @type {B} */ (b));\n"
    text += """let quoted = "a // b", other = '/* c */', both = `/* "d" // */`;"""
    (tmp_path / "a.js").write_text(text)

    content = b'\n\n\nlet url = "https://x";\n\n (end)();\n more((b));\n'
    content += b"""let quoted = "a // b", other = '/* c */', both = `/* "d" // */`;"""
    assert PageFiles(tmp_path).files["a.js"].content == content


def test_files_are_compressed_further_once_and_kept_for_the_next_process(door, tmp_path: Path) -> None:
    files = PageFiles(STATIC)
    files.compress_further(tmp_path)
    eventually(lambda: all(file.brotli for name, file in files.files.items() if not name.endswith(".map")))
    (tmp_path / "000000000000.br").write_text("of an older version")
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir() if path.stem != "000000000000"}

    later = PageFiles(STATIC)
    later.compress_further(tmp_path)
    eventually(lambda: {*tmp_path.iterdir()} == {*written})

    index = later.files["index.js"]
    assert index.brotli is not None
    assert brotli.decompress(index.brotli) == index.content
    assert len(index.brotli) < 0.9 * len(index.compressed)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written


def test_a_damaged_file_of_an_earlier_process_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<script type="module" src="/static/a.js"></script>')
    (tmp_path / "a.js").write_text("start();")
    first = PageFiles(tmp_path)
    first.compress_further(tmp_path / "kept")
    eventually(lambda: all(file.brotli for name, file in first.files.items() if not name.endswith(".map")))
    path = tmp_path / "kept" / f"{first.files['index.js'].version}.br"
    for content in (b"", b"not Brotli", brotli.compress(b"alert(1)")):
        path.write_bytes(content)
        files = PageFiles(tmp_path)

        files.compress_further(tmp_path / "kept")

        eventually(lambda files=files: files.files["index.js"].brotli)
        assert brotli.decompress(files.files["index.js"].brotli) == files.files["index.js"].content
        assert path.read_bytes() == files.files["index.js"].brotli


def test_without_room_for_what_is_compressed_further_there_is_gzip(tmp_path: Path, caplog) -> None:
    (tmp_path / "file").write_text("")
    files = PageFiles(STATIC)

    files.compress_further(tmp_path / "file")

    eventually(lambda: "could not be compressed further" in caplog.text)
    assert files.files["index.js"].brotli is None
