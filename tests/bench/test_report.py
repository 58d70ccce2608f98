"""Figures beside their bars."""

from math import inf

from tests.bench.report import Bar, Figure, Report, markdown

RATIO = Bar(compares="ratio", limit=1.1)


def figure(rounds, references=(), bar=None):
    return Figure(name="cost", unit="µs", rounds=rounds, references=references, bar=bar)


def test_the_ratio_is_the_median_of_the_rounds_own_ratios():
    one_slow_round = figure([10.0, 100.0, 10.0], [10.0, 100.0, 20.0], RATIO)

    assert one_slow_round.compared == 1.0
    assert one_slow_round.is_ok


def test_a_difference_is_held_against_its_bar():
    bar = Bar(compares="difference", limit=6.0)

    assert figure([12.0], [6.0], bar).is_ok
    assert not figure([12.1], [6.0], bar).is_ok


def test_a_missed_wish_is_no_failure():
    wish = figure([200.0], bar=Bar(compares="figure", limit=300, at_least=True, is_stretch=True))

    assert wish.is_ok is False
    assert not wish.is_missed


def test_a_report_survives_json_with_what_never_came():
    report = Report(name="x", title="X", figures=[figure([inf], [1.0], RATIO)])

    back = Report.from_json(report.to_json())

    assert back.figures == report.figures
    assert back.figures[0].cells()[1] == "never"


def test_markdown_has_a_line_for_each_figure():
    report = Report(name="x", title="X", figures=[figure([110.0], [100.0], RATIO)])

    assert "| cost | 110 µs | 100 µs | 1.10x | ≤ 1.1x | ok |" in markdown([report])
