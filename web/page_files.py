"""The files of ``web/static`` as browsers get them: compressed, and with URLs that change when their content does.

``?v=`` is of the file's content, so that browsers keep each file for ever and load only what changed after an update.
Modules import each other by paths without it; the shell's import map adds it. Modules and stylesheets are joined into a
few files. A body that is the same for every reader is compressed once, and named by its content.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import logging
import os
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import brotli
from flask import Response, request

from config.private_files import open_private, private_folder
from config.watched_files import WatchedFiles
from web.page_modules import JoinedModules, load_order

log = logging.getLogger(__name__)

VERSION_CHARS = 8
LATE = ("late.js", "late.css")
"""All that modules load later, but for what others have written."""


@dataclass(frozen=True, slots=True)
class FixedBody:
    """A body with its media type."""

    content: bytes
    media_type: str
    version: str = field(init=False)
    """The beginning of the content's digest."""
    compressed: bytes = field(init=False)
    """By gzip."""
    brotli: bytes | None = field(init=False, default=None)
    """By Brotli, once that is done."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", hashlib.sha256(self.content).hexdigest()[:VERSION_CHARS])
        object.__setattr__(self, "compressed", gzip.compress(self.content, mtime=0))

    def answer(self, cache_control: str = "no-cache") -> Response:
        """Return the response to this request: compressed if the client takes that, 304 if it has this version.

        What an attacker could add to is never compressed together with a secret: this body has neither.
        """
        forms = (("br", self.brotli), ("gzip", self.compressed))
        takes = request.accept_encodings
        encoding, body = next((form for form in forms if form[1] and takes[form[0]] > 0), ("", self.content))
        answer = Response(body, content_type=self.media_type)
        if encoding:
            answer.headers["Content-Encoding"] = encoding
        answer.headers["Cache-Control"] = cache_control
        answer.vary.add("Accept-Encoding")
        answer.set_etag(self.version, weak=True)  # all forms have it
        answer.make_conditional(request)
        return answer


STATIC = Path(__file__).resolve().parent / "static"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".map": "application/json",
}
"""Fixed, since guesses differ between machines; files with other suffixes are not served."""
VENDOR = "vendor/"
"""What others have written, which is served unchanged with its notice of copyright."""
STYLESHEETS = re.compile(r'(?:<link rel="stylesheet" href="/static/[^"]+">\n)+')
LINKED = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)">')
ENTRY = re.compile(r'<script type="module" src="/static/([^"]+)"')
COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*\*/ ?| // .*$")
SPACES = re.compile(r" ?([{};,>]) ?|(?<=:) ")
"""The spaces beside the signs of a stylesheet, none of whose strings has such a sign."""
QUOTED_PATH = re.compile(r'"/static/[^"?]+"')


@cache
def page_files() -> PageFiles:
    """Return the files of the page, read and compressed by the first call in this process."""
    return PageFiles(STATIC)


class PageFiles:
    """The files of a folder by the names that their URLs have behind ``/static/``, and the shells, which name them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watched = WatchedFiles(lambda: (path for path in sorted(folder.rglob("*")) if path.suffix in TYPES))
        self.files: dict[str, FixedBody] = {}
        self.shells: dict[str, FixedBody] = {}
        self.import_map = ""
        self._late: dict[str, str] = {}
        """The files that modules load, by the paths that modules have for them."""
        self._is_compressed = False
        self.refresh()

    def refresh(self) -> None:
        """Read the files again if one of them has changed."""
        changed = self._watched.changed()
        if changed is None:
            return
        paths = [Path(stamp.path) for stamp in changed]
        texts = {path.relative_to(self._folder).as_posix(): path.read_text() for path in paths}
        shells = {name: texts.pop(name) for name in list(texts) if name.endswith(".html")}
        texts = {name: text if name.startswith(VENDOR) else _without_comments(text) for name, text in texts.items()}
        self._late = {}
        texts |= self._stylesheets(texts, shells)
        texts |= self._joined_modules(texts, shells)
        self.files = {name: _body(name, text) for name, text in texts.items()}
        self.import_map = self._import_map()
        self.shells = {name: _body(name, self._shell(name, text)) for name, text in shells.items()}
        self._is_compressed = False
        self._watched.mark_read(changed)

    def compress_further(self, folder: Path) -> None:
        """Compress the files with Brotli on a thread, which takes a second; ``folder`` keeps the results.

        Requests get the files compressed by gzip until then. A later call does nothing until files have changed.
        """
        if not self._is_compressed:
            self._is_compressed = True
            files = [file for name, file in self.files.items() if not name.endswith(".map")]
            threading.Thread(target=_compress, args=(files, folder), name="page-files", daemon=True).start()

    @property
    def script_source(self) -> str:
        """The import map as the content policy names it: the only script inside a shell."""
        digest = hashlib.sha256(self.import_map.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    def _stylesheets(self, texts: Mapping[str, str], shells: Mapping[str, str]) -> dict[str, str]:
        """Return the stylesheets of each shell as one, and as another those that modules load."""
        linked = {_named_after(shell, ".css"): LINKED.findall(html) for shell, html in shells.items()}
        late = {name for name in texts if name.endswith(".css")}.difference(*linked.values())
        own = sorted(name for name in late if not name.startswith(VENDOR))
        self._late |= {_path(name): LATE[1] if name in own else name for name in sorted(late)}
        sheets = linked | {LATE[1]: own}
        return {sheet: packed(texts[name] for name in names) for sheet, names in sheets.items() if names}

    def _joined_modules(self, texts: Mapping[str, str], shells: Mapping[str, str]) -> dict[str, str]:
        """Return the modules of each shell joined. By themselves they are served as they are, which no shell uses."""
        scripts = {name: text for name, text in texts.items() if name.endswith(".js")}
        modules = {name: text for name, text in scripts.items() if not name.startswith(VENDOR)}
        self._late |= {_path(name): name for name in scripts if name not in modules}
        joined_texts: dict[str, str] = {}
        for shell, html in shells.items():
            if entry := ENTRY.search(html):
                first, late = load_order(modules, entry[1])
                files = {_named_after(shell, ".js"): first} | ({LATE[0]: late} if late else {})
                joined_texts |= JoinedModules(modules, files).texts()
                self._late |= {_path(file): file for file in files}
        return joined_texts

    def _import_map(self) -> str:
        imports = {path: self._versioned(_path(name)) for path, name in self._late.items()}
        return json.dumps({"imports": imports}, separators=(",", ":"))

    def _versioned(self, path: str) -> str:
        return f"{path}?v={self.files[path.removeprefix('/static/')].version}"

    def _shell(self, name: str, text: str) -> str:
        link = f'<link rel="stylesheet" href="/static/{_named_after(name, ".css")}">\n'
        text = STYLESHEETS.sub(link, text, count=1)
        text = ENTRY.sub(f'<script type="module" src="/static/{_named_after(name, ".js")}"', text, count=1)
        text = QUOTED_PATH.sub(lambda match: f'"{self._versioned(match[0][1:-1])}"', text)
        before, tag, after = text.partition('<script type="module"')
        return f'{before}<script type="importmap">{self.import_map}</script>\n{tag}{after}' if tag else text


def _path(name: str) -> str:
    return f"/static/{name}"


def packed(sheets: Iterable[str]) -> str:
    """Return stylesheets as one, without needless spaces and empty lines."""
    lines = (line.strip() for sheet in sheets for line in sheet.split("\n"))
    return "".join(SPACES.sub(r"\1", line) + "\n" for line in lines if line)


def _named_after(shell: str, suffix: str) -> str:
    return f"{Path(shell).stem}{suffix}"


def _body(name: str, text: str) -> FixedBody:
    return FixedBody(text.encode(), TYPES[Path(name).suffix])


def _compress(files: Iterable[FixedBody], folder: Path) -> None:
    """Give each file its form by Brotli, from ``folder`` where an earlier process has left it; remove what is old."""
    kept = {folder / f"{file.version}.br": file for file in files}
    try:
        private_folder(folder)
        for path, file in kept.items():
            object.__setattr__(file, "brotli", _brotli_of(file.content, path))
        for path in {*folder.glob("*.br")} - {*kept}:
            path.unlink(missing_ok=True)
    except OSError as error:  # a full disk: the files stay compressed by gzip
        log.warning("the page's files could not be compressed further in %s: %s", folder, error.strerror)


def _brotli_of(content: bytes, path: Path) -> bytes:
    """Return the content compressed, as ``path`` has it; where it is missing or damaged it is written anew."""
    with suppress(brotli.error, FileNotFoundError):
        compressed: bytes = path.read_bytes()
        if brotli.decompress(compressed) == content:
            return compressed
    compressed = brotli.compress(content, mode=brotli.MODE_TEXT, lgblock=24)
    new_path = path.with_suffix(f".{os.getpid()}")
    with os.fdopen(open_private(new_path, os.O_WRONLY | os.O_TRUNC), "wb") as new_file:
        new_file.write(compressed)
    new_path.replace(path)
    return compressed


def _without_comments(text: str) -> str:
    """Return the text with an empty line for each line of a comment, so that errors name the lines of the source."""
    lines = []
    is_comment = False
    for line in text.split("\n"):
        code = line
        if is_comment or line.lstrip().startswith("/*"):  # code may stand behind it, such as a value behind its type
            _, end, code = line.partition("*/")
            is_comment = not end
        lines.append("" if code.lstrip().startswith("//") else COMMENT.sub(_unless_quoted, code))
    return "\n".join(lines)


def _unless_quoted(comment: re.Match[str]) -> str:
    """Return nothing for a comment within a line, and what looks like one inside a string as it is."""
    before = comment.string[: comment.start()]
    return comment[0] if any(before.count(quote) % 2 for quote in "\"'`") else ""
