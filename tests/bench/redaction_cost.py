"""What the redaction of streamed text costs a chunk, beside passing the chunk through.

PYTHONPATH=. .venv/bin/python -m tests.bench.redaction_cost [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from agents.governance.guardrails.scan import Scan
from agents.governance.guardrails.stream import StreamRedactor
from config.definitions.guardrails.checks import Checks
from config.redaction import Redactor
from tests.bench.command import Effort, run
from tests.bench.report import Bar, Figure, Report

BAR_US = 5
KEYS = Redactor({f"KEY{i}_TOKEN": f"{chr(97 + i)}value-of-secret-{i}" for i in range(20)})
PROSE = """
The quick brown fox jumps over the lazy dog, and then it sat down near a riverbank to think about prices: apples cost
$2.50 in 2024. See the basic docs at https://example.org/path for keys and values, or ask the team (it is small).
"""
CODE = """
def total(items: list[int], *, tax: float = 0.19) -> float:
    # sums what is in the list, with the tax
    return sum(item for item in items if item > 0) * (1 + tax)  # -> 12.5
"""
SECRET = "Use sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12 with password=hunter2222 at postgresql://me:s3cr3t-word@db/x now. "


def pieces_of(text: str) -> list[str]:
    """Return the text as models stream it: a word with the blank before it, or a mark."""
    return re.findall(r"\s?\w+|\W", text)


def cost_us(add: Callable[[], Callable[[str], str]], pieces: Sequence[str], rounds: int) -> list[float]:
    """Return the CPU time of a chunk in each round, each with a stream of its own."""
    costs = []
    for _ in range(rounds):
        take = add()
        started = time.thread_time()
        for piece in pieces:
            take(piece)
        costs.append((time.thread_time() - started) / len(pieces) * 1e6)
    return costs


def measure(effort: Effort) -> Report:
    """Return the cost of a chunk with each kind of text and of checks."""
    repeats = effort.pick(200, 10)
    plain, key_scan, personal = Scan(Checks(), Redactor({})), Scan(Checks(), KEYS), Scan(Checks(pii="redact"), KEYS)
    kinds = {
        "usual text, no secret known": (PROSE, plain),
        "usual text, 20 secrets known": (PROSE, key_scan),
        "program text, 20 secrets known": (CODE, key_scan),
        "usual text, and personal data": (PROSE, personal),
        "nothing but secrets": (SECRET, key_scan),
    }
    figures = []
    for name, (text, scan) in kinds.items():
        pieces = pieces_of(text * repeats)
        cost_us(lambda scan=scan: StreamRedactor(scan).add, pieces[:200], 1)  # type: ignore[misc]  # of each turn
        references = cost_us(lambda: str, pieces, effort.rounds)
        rounds = cost_us(lambda scan=scan: StreamRedactor(scan).add, pieces, effort.rounds)  # type: ignore[misc]
        bar = Bar(compares="figure", limit=BAR_US) if name.startswith("usual") else None
        figures.append(Figure(name=name, unit="µs", rounds=rounds, references=references, bar=bar))
    return Report(name="redaction_cost", title="What redaction costs a chunk of streamed text", figures=figures)


if __name__ == "__main__":
    run(measure, __doc__)
