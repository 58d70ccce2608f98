"""Which places `crashtest` kills at, and which options `soak` takes; the kills themselves are a journey."""

import click
import pytest

from cli.crashlab.places import Choice, Place
from cli.main import WRONG_USAGE, status_of

PLACES = [Place(name="commit", number=number, where="after a commit") for number in range(1, 21)]


def chosen(*at: str, sample: int | None = None, seed: int = 7) -> list[str]:
    return [str(location) for location in Choice(at, sample, seed).of(PLACES)]


def test_without_a_choice_it_is_every_place():
    assert chosen() == [f"commit@{number}" for number in range(1, 21)]
    assert chosen(sample=20) == chosen(sample=50) == chosen()


def test_the_same_seed_draws_the_same_places_in_their_order():
    first = chosen(sample=5)

    assert first == chosen(sample=5)
    assert len(set(first)) == 5
    assert first == [location for location in chosen() if location in first]
    assert any(chosen(sample=5, seed=seed) != first for seed in range(5))


def test_named_places_go_before_a_sample():
    assert chosen("commit@3", "commit@1", sample=1) == ["commit@1", "commit@3"]


def test_a_place_the_run_does_not_pass_is_named_with_those_it_does():
    with pytest.raises(click.UsageError, match=r"does not pass commit@99; it passes commit@1, commit@2"):
        chosen("commit@99")


def test_soak_says_which_options_belong_to_the_sweep(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # commands change folder; afterwards it is as it was

    assert status_of(["soak", "--twice"]) == WRONG_USAGE
    assert "--sweep" in capsys.readouterr().err
