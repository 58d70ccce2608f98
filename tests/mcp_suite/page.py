"""`docs/mcp-conformance.md`: what the suite found, a row for each scenario.

``pytest tests/journeys/test_mcp_suite.py --write-pages`` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from config.folders import ROOT
from tests.mcp_suite.remarks import ON_STDIO
from tests.mcp_suite.suite import ERAS, ScenarioResult

PAGE = ROOT / "docs" / "mcp-conformance.md"
OPTION = "--write-pages"
Results = Mapping[str, Sequence[ScenarioResult]]
"""By era."""


def add_option(parser: pytest.Parser) -> None:
    """`--write-pages` is an option of pytest afterwards."""
    parser.addoption(OPTION, action="store_true", help="write the documents that journeys compare")


def section(title: str, found: Results, remarks: Mapping[str, str]) -> str:
    """Return the page's part about one side."""
    names = sorted({one.name for results in found.values() for one in results})
    lines = [f"## {title}", "", *_figures(found, remarks), ""]
    lines += [f"| scenario | {' | '.join(ERAS)} | remark |", "|---|---|---|---|"]
    for name in names:
        cells = [_verdict(name, found[era], remarks) for era in ERAS]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {_remark(name, remarks)} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def compare(title: str, wanted: str, *, write: bool) -> None:
    """Fail where the page has something else under the title; or ``write`` it there."""
    before, _, rest = PAGE.read_text().partition(f"## {title}\n")
    _, follows, after = rest.partition("\n## ")
    if write:
        PAGE.write_text(before + wanted + (follows + after))
        return
    has = f"## {title}\n{rest.removesuffix(follows + after)}"
    assert has == wanted, f"run `pytest tests/journeys/test_mcp_suite.py {OPTION}` and read the difference"


def _figures(found: Results, remarks: Mapping[str, str]) -> list[str]:
    lines = []
    for era in ERAS:
        passing = sum(one.applies(remarks) for one in found[era])
        lines.append(f"- {era}: {passing} pass, {len(found[era]) - passing} do not apply.")
    return lines


def _verdict(name: str, results: Sequence[ScenarioResult], remarks: Mapping[str, str]) -> str:
    found = next((one for one in results if one.name == name), None)
    if found is None:
        return "–"
    return "passes" if found.applies(remarks) else "does not apply"


def _remark(name: str, remarks: Mapping[str, str]) -> str:
    parts = {"": ON_STDIO[name]} if name in ON_STDIO else {}
    parts |= {one.partition(":")[2]: said for one, said in remarks.items() if one.partition(":")[0] == name}
    return " ".join(f"`{check}`: {said}" if check else said for check, said in parts.items())
