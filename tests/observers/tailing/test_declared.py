"""What `config/observers.yaml` declares is read strictly: a mistake delivers nothing, and says what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.definitions.errors import DefinitionInvalid, PluginUnknown
from config.settings import Settings
from observers.base import Tailing
from observers.tailing.tailed import Tailed, tailed_observer


def declared(settings: Settings, folder: Path, text: str, name: str = "noting") -> Tailed:
    (folder / "observers.yaml").write_text(text)
    changes = {"observers_file": str(folder / "observers.yaml"), "tool_modules": "tests.observed"}
    return tailed_observer(name, settings.model_copy(update=changes))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("noting: {class: 'tests.observed:Notting'}", "no 'Notting'"),
        ("noting: {class: 'tests.observed:Noting', tipes: [end]}", r"observers.yaml:1: noting.tipes: .* mean 'types'"),
        ("noting:\n  class: tests.observed:Noting\n  agents: []", "observers.yaml:3: noting.agents: selects nothing"),
        (
            "noting: {class: 'tests.observed:Noting', types: [ended]}",
            "no type of events 'ended'; known types: .*status",
        ),
        ("noting: {class: 'tests.observed:Noting', types: end}", "has to be a list"),
        ("noting: {class: 'tests.observed:Noting', start: tomorrow}", "has to be now, beginning"),
        ("noting: {class: 'tests.observed:Noting', delivery: certain}", "has to be 'critical', 'reliable'"),
        ("noting: {class: 'tests.observed:Noting', threads: 33}", "less than or equal to 32"),
        ("noting: {class: 'tests.observed:Noting', tenants: ['a b']}", "has to be a name"),
        ("noting: {class: sse}", "cannot tail the log"),
        ("noting: {class: 'tests.observed:FILE'}", "derive a class"),
        ("noting: {class: 'tests.observed:Noting'}\nnoting: {}", "is written twice"),
        ("'1st': {}", "the first a letter"),
        ("notting: {class: 'tests.observed:Noting'}", "Did you mean 'notting'"),
        ("- noting", "has no fields"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_its_remedy(
    usual_settings: Settings, tmp_path: Path, text: str, sentence: str
):
    with pytest.raises((DefinitionInvalid, PluginUnknown), match=sentence):
        declared(usual_settings, tmp_path, text)


def test_what_is_declared_precedes_what_the_class_says(usual_settings: Settings, tmp_path: Path):
    text = "noting: {class: 'tests.observed:Noting', delivery: critical, threads: 3, start: 2026-11-01, types: [end]}"

    tailed = declared(usual_settings, tmp_path, text)

    assert (tailed.name, tailed.delivery, tailed.threads, tailed.start) == ("noting", "critical", 3, "2026-11-01")
    assert tailed.retry_for_s == float("inf")
    assert tailed.selection.as_json() == '{"types":["end"]}'


def test_a_dotted_path_tails_under_the_name_of_its_class(usual_settings: Settings, tmp_path: Path):
    tailed = declared(usual_settings, tmp_path, "{}", "tests.observed:Noting")

    assert (tailed.name, tailed.delivery, tailed.threads, tailed.start) == ("noting", "reliable", 1, "now")
    assert tailed.selection.as_json() is None


@pytest.mark.parametrize("poll_s", [0.0, 2.6, float("nan")])
def test_a_class_that_would_lose_its_partitions_between_two_looks_is_refused(poll_s: float):
    with pytest.raises(ValueError, match=r"at least every 2\.5 s"):
        Tailing(poll_s=poll_s)
