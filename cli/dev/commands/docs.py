"""`./callboard docs`: build the documents as a site, and the list of them that language models read.

The table of contents is docs/README.md. The site is made by Zensical from a copy in which links lead to where the site
has a page (docs/decisions/0209-a-site-of-the-documents.md).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import click

from cli.main import FAILED, SUCCEEDED, CallerPath
from cli.supervisor.serving import python
from config.folders import ROOT
from config.settings.project import project

DOCS = ROOT / "docs"
LLMS, LLMS_FULL = "llms.txt", "llms-full.txt"
INDEX = "README.md"
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
CODE_OR_LINK = re.compile(r"`[^`\n]+`|\[(?P<text>(?:`[^`\n]*`|[^\[\]`])*)\]\((?P<target>[^)\s]+)\)")
BULLET = re.compile(r"^- .+(?:\n  .+)*", re.MULTILINE)
SECTION = re.compile(r"^## (.+)$|^\*\*(.+):\*\*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedPage:
    """A page in the table of contents."""

    kind: str
    group: str
    title: str
    path: Path
    about: str
    """What its line says behind the link."""


def contents(index: Path = DOCS / INDEX) -> list[IndexedPage]:
    """Return the pages of an index in their order."""
    entries = []
    kind = group = ""
    for part in re.split(r"\n\n+", index.read_text()):
        if match := SECTION.match(part):
            kind, group = (match[1], "") if match[1] else (kind, match[2])
        for bullet in BULLET.findall(part):
            links = [match for match in CODE_OR_LINK.finditer(bullet) if match["target"]]
            about = " ".join(bullet[links[-1].end() :].split()).lstrip(":, ") if links else ""
            for match in links:
                path = (index.parent / match["target"]).resolve()
                title = match["text"][:1].upper() + match["text"][1:]
                entries.append(IndexedPage(kind=kind, group=group, title=title, path=path, about=about))
    return entries


def site_paths() -> dict[Path, str]:
    """Return each page with its path in the site."""
    pages = [*DOCS.rglob("*.md"), *(ROOT / "clients").glob(f"*/{INDEX}")]
    return {page: _site_path(page) for page in sorted(pages)}


def _site_path(page: Path) -> str:
    if page.is_relative_to(DOCS):
        path = page.relative_to(DOCS)
        return str(path.with_name("index.md") if path.name == INDEX else path)
    return f"{page.parent.relative_to(ROOT)}.md"


def relinked(page: Path, paths: Mapping[Path, str]) -> tuple[str, list[str]]:
    """Return a page with links as the site has them, and what is wrong with them.

    A link to a file that is no page leads to the repository, or is text.
    """
    problems: list[str] = []

    def relink(match: re.Match[str]) -> str:
        if match["target"] is None:
            return match[0].replace("\\|", "|") if _is_in_table(match) else match[0]
        if urlsplit(match["target"]).scheme:
            return match[0]
        target, anchor = urldefrag(match["target"])
        file = (page.parent / unquote(target)).resolve() if target else page
        if not file.exists():
            problems.append(f"{page.relative_to(ROOT)} has a link to {target}, which is not there.")
        elif address := _address(page, file, paths):
            return f"[{match['text']}]({address}{'#' if anchor else ''}{anchor})"
        return match["text"]

    parts = FENCED.split(page.read_text())
    text = "".join(part if part.startswith("```") else CODE_OR_LINK.sub(relink, part) for part in parts)
    return text, problems


def _is_in_table(match: re.Match[str]) -> bool:
    """Return whether a table has it: there a bar in code stands behind a backslash, which the generator would show."""
    return match.string.startswith("|", match.string.rfind("\n", 0, match.start()) + 1)


def _address(page: Path, file: Path, paths: Mapping[Path, str]) -> str:
    """Return what leads from a page to a file; empty where neither the site nor a repository has it."""
    ups = "../" * paths[page].count("/")
    if file in paths:
        return f"{ups}{paths[file]}"
    if file.is_file() and file.is_relative_to(DOCS):
        return f"{ups}{file.relative_to(DOCS)}"
    repository = str(project().get("urls", {}).get("Repository", "")).rstrip("/")
    return f"{repository}/blob/main/{file.relative_to(ROOT)}" if repository else ""


# --- what language models read --------------------------------------------------------------------------


def llms_txt() -> str:
    """Return the list of the documents in the form of llmstxt.org, with paths as docs/ has them."""
    lines = ["# Callboard", "", f"> {project()['description']}", ""]
    opening = DOCS.joinpath(INDEX).read_text().split("\n\n")[1]
    lines.append(" ".join(opening.split()))
    kind = ""
    for entry in contents():
        if entry.kind != kind:
            kind = entry.kind
            lines += ["", f"## {kind}", ""]
        target = os.path.relpath(entry.path, DOCS)
        lines.append(f"- [{entry.title}]({target})" + (f": {_plain(entry.about)}" if entry.about else ""))
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return CODE_OR_LINK.sub(lambda match: match["text"] or match[0], text)


# --- the site -------------------------------------------------------------------------------------------


PROJECT = """
[project]
site_name = "Callboard"
site_description = {description}
docs_dir = "docs"
site_dir = "site"
use_directory_urls = false
nav = {nav}

[project.theme]
font = false
language = "en"
features = [
  "content.code.copy", "navigation.footer", "navigation.indexes", "navigation.sections", "navigation.tabs",
  "navigation.top", "search.highlight", "toc.follow",
]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light"

[project.validation]
invalid_links = true
invalid_link_anchors = true

[project.markdown_extensions]
attr_list = {{}}
sane_lists = {{}}
tables = {{}}
toc.permalink = true
toc.slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
pymdownx.highlight.pygments_lang_class = true
pymdownx.superfences = {{}}
"""
"""No font, script or style is loaded from elsewhere, and words mean what they mean in the checkout: no extension that
reads signs of a text as its own."""


@click.command()
@click.option("--output", type=CallerPath(file_okay=False), default=None, help="Folder of the site (default: site).")
@click.option("--serve", metavar="PORT", type=int, help="Serve the site on this port of 127.0.0.1 afterwards.")
def docs(output: Path | None, serve: int | None) -> int:
    """Build the site of the documents, and write docs/llms.txt.

    The build fails on a link or an anchor that leads nowhere, on a page that docs/README.md does not list, and on
    anything that a page would load from another host.
    """
    site = output or ROOT / "site"
    if site.exists() and any(site.iterdir()) and not (site / LLMS_FULL).exists():
        raise click.UsageError(f"{site} has files of something else, which would be removed; name a new folder.")
    (DOCS / LLMS).write_text(llms_txt())
    problems = build(site)
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        click.echo("The site is not built.", err=True)
        return FAILED
    click.echo(f"{sum(1 for _ in site.rglob('*.html'))} pages are in {site}.")
    if serve is not None:
        click.echo(f"Serving http://127.0.0.1:{serve} until Ctrl-C.")
        subprocess.run([*python("http.server"), "--bind", "127.0.0.1", "--directory", site, str(serve)], check=False)
    return SUCCEEDED


def build(site: Path) -> list[str]:
    """Build the site into a folder, in place of what an earlier call built; return the problems where there are any."""
    paths, listed = site_paths(), _listed()
    pages = {path: relinked(page, paths) for page, path in paths.items()}
    orphans = (page.relative_to(ROOT) for page in paths if page not in listed)
    problems = [f"{orphan} is not in docs/README.md; add a line." for orphan in orphans]
    problems += [problem for _, of_page in pages.values() for problem in of_page]
    texts = {path: text for path, (text, _) in pages.items()}
    with tempfile.TemporaryDirectory(prefix="callboard-docs-") as name:
        built = Path(name) / "site"
        problems = problems or _generate(Path(name), texts, navigation(paths)) or problems_of(built)
        if not problems:
            _write(built, texts | _lists(texts, paths))
            shutil.rmtree(site, ignore_errors=True)
            shutil.copytree(built, site)
    return problems


def _generate(folder: Path, texts: Mapping[str, str], nav: list[dict[str, Any]]) -> list[str]:
    """Have Zensical build the texts into ``site`` in a folder; return what it says is wrong."""
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("*.md", "*.pyc"))
    _write(folder / "docs", texts)
    description = json.dumps(str(project()["description"]))
    (folder / "zensical.toml").write_text(PROJECT.format(description=description, nav=_toml(nav)))
    command = [*python("zensical"), "build", "--strict"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return [(ran.stdout + ran.stderr).partition("Traceback")[0].strip()] if ran.returncode else []


def _listed() -> set[Path]:
    """Return what the two indexes list, and themselves."""
    indexes = (DOCS / INDEX, DOCS / "decisions" / INDEX)
    return {*indexes, *(entry.path for index in indexes for entry in contents(index))}


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def _lists(texts: Mapping[str, str], paths: Mapping[Path, str]) -> dict[str, str]:
    """Return the lists for language models as the site has them: the documents' texts are beside its pages."""
    served = {os.path.relpath(page, DOCS): path for page, path in paths.items()}
    listed = CODE_OR_LINK.sub(
        lambda match: f"[{match['text']}]({served[match['target']]})" if match["target"] else match[0], llms_txt()
    )
    return {LLMS: listed, LLMS_FULL: "\n".join(texts[paths[entry.path]] for entry in contents())}


def navigation(paths: Mapping[Path, str]) -> list[dict[str, Any]]:
    """Return the four kinds of documents with their pages, as Zensical reads them; decisions are below their list."""
    tree: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for entry in contents():
        tree.setdefault(entry.kind, {}).setdefault(entry.group, []).append({entry.title: paths[entry.path]})
    decisions = DOCS / "decisions" / INDEX
    below: dict[str, list[Any]] = {}
    for entry in contents(decisions):
        below.setdefault(entry.kind, []).append({entry.title: paths[entry.path]})
    kinds: list[dict[str, Any]] = [{"Documents": paths[DOCS / INDEX]}]
    for kind, groups in tree.items():
        pages: list[Any] = [*groups.pop("", [])]
        pages = [_with_decisions(page, paths[decisions], below) for page in pages]
        kinds.append({kind: [*pages, *({group: entries} for group, entries in groups.items())]})
    return kinds


def _with_decisions(page: dict[str, Any], path: str, below: Mapping[str, list[Any]]) -> dict[str, Any]:
    title, target = next(iter(page.items()))
    return {title: [target, *({kind: pages} for kind, pages in below.items())]} if target == path else page


def _toml(value: Any) -> str:
    """Return lists, tables with one key and texts in TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in value.items())} }}"
    return json.dumps(value)


class SitePage(HTMLParser):
    """What a page of the site links to and loads, and which anchors it has."""

    LOADING = frozenset({"script", "img", "source", "iframe", "video", "audio"})
    RELATIONS = frozenset({"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "manifest"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and self.RELATIONS.intersection(values.get("rel", "").split()):
            self.loads.append(values.get("href", ""))
        if tag in self.LOADING and "src" in values:
            self.loads.append(values["src"])


def problems_of(site: Path) -> list[str]:
    """Return what a built site links to or loads that is not in it."""
    pages = {path.resolve(): SitePage(path.read_text()) for path in site.rglob("*.html")}
    return [problem for path, page in pages.items() for problem in _problems_of_page(site, path, page, pages)]


def _problems_of_page(site: Path, path: Path, page: SitePage, pages: Mapping[Path, SitePage]) -> Iterator[str]:
    name = path.relative_to(site.resolve())
    for address in (*page.links, *page.loads):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            if address in page.loads and parts.scheme != "data":
                yield f"{name} loads {address} from another host."
            continue
        if name.name == "404.html":  # its addresses begin at the site's root, wherever that is
            continue
        file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        file = file / "index.html" if file.is_dir() else file
        if not file.is_file():
            yield f"{name} has a link to {address}, which is not there."
        elif file in pages and unquote(parts.fragment) not in pages[file].anchors:
            yield f"{name} has a link to {address}, and there is no such heading."
