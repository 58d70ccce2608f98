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


def section(title: str, by_era: Results, remarks: Mapping[str, str]) -> str:
    """Return the page's part about one side."""
    names = sorted({result.name for results in by_era.values() for result in results})
    lines = [f"## {title}", "", *_figures(by_era, remarks), ""]
    lines += [f"| scenario | {' | '.join(ERAS)} | remark |", "|---|---|---|---|"]
    for name in names:
        cells = [_verdict(name, by_era[era], remarks) for era in ERAS]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {_remark(name, remarks)} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def compare(title: str, expected: str, *, write: bool) -> None:
    """Fail where the page has something else under the title; or ``write`` it there."""
    before, _, rest = PAGE.read_text().partition(f"## {title}\n")
    _, follows, after = rest.partition("\n## ")
    if write:
        PAGE.write_text(before + expected + (follows + after))
        return
    has = f"## {title}\n{rest.removesuffix(follows + after)}"
    assert has == expected, f"run `pytest tests/journeys/test_mcp_suite.py {OPTION}` and read the difference"


def _figures(by_era: Results, remarks: Mapping[str, str]) -> list[str]:
    lines = []
    for era in ERAS:
        passing = sum(result.applies(remarks) for result in by_era[era])
        lines.append(f"- {era}: {passing} pass, {len(by_era[era]) - passing} do not apply.")
    return lines


def _verdict(name: str, results: Sequence[ScenarioResult], remarks: Mapping[str, str]) -> str:
    match = next((result for result in results if result.name == name), None)
    if match is None:
        return "–"
    return "passes" if match.applies(remarks) else "does not apply"


def _remark(name: str, remarks: Mapping[str, str]) -> str:
    parts = {"": ON_STDIO[name]} if name in ON_STDIO else {}
    parts |= {
        remark_key.partition(":")[2]: remark_text
        for remark_key, remark_text in remarks.items()
        if remark_key.partition(":")[0] == name
    }
    return " ".join(f"`{check}`: {sentence}" if check else sentence for check, sentence in parts.items())
