"""The same seed does the same things in the same order, and a soak in which nothing happened is none."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from config.database.engine import open_database
from config.database.migrate import migrate
from config.settings import Settings
from tests.soak.enough import LEAST, Tally, tally, too_little
from tests.soak.faults import FIRST_FEW, KILL, NAMES, plan
from tests.soak.load import Load, Seen, new_runs

PLENTY = Tally(counts=dict.fromkeys(LEAST, 1000), done=dict.fromkeys(NAMES, 3))


def planned(seed: str, count: int = 100) -> list[object]:
    return list(islice(plan(random.Random(seed)), count))


def test_a_seed_breaks_the_same_things_in_the_same_order_with_the_same_pauses() -> None:
    assert planned("7 faults") == planned("7 faults")
    assert planned("7 faults") != planned("8 faults")


def test_each_fault_is_done_before_any_is_done_again() -> None:
    rounds = [blow.name for blow in islice(plan(random.Random(7)), 3 * len(NAMES))]

    for number in range(3):
        assert sorted(rounds[number * len(NAMES) : (number + 1) * len(NAMES)]) == sorted(NAMES)


@pytest.mark.parametrize("seed", range(20))
def test_workers_are_killed_early_so_that_a_short_soak_has_crashes_too(seed: int) -> None:
    assert KILL in [blow.name for blow in islice(plan(random.Random(seed)), FIRST_FEW)]


def test_a_seed_starts_the_same_runs_in_the_same_order() -> None:
    first, again = (list(islice(new_runs(random.Random("7 starter 0")), 100)) for _ in range(2))

    assert first == again


def test_no_actor_draws_from_anothers_random_sequence(tmp_path: Path) -> None:
    load = Load("http://127.0.0.1:9", tmp_path / "ledger", 7)

    drawn = [part for part in map(sequence_of, load._works(7)) if part is not None]

    assert len(drawn) == len({id(part) for part in drawn}) == len({part.getstate() for part in drawn}) == 6


def sequence_of(named: tuple[str, object]) -> random.Random | None:
    """Return the random sequence a part of the load draws from."""
    arguments = getattr(named[1], "args", ())
    generator_frames = [getattr(argument, "gi_frame", None) for argument in arguments]
    frames = [frame.f_locals["rnd"] for frame in generator_frames if frame is not None]
    return next((candidate for candidate in (*arguments, *frames) if isinstance(candidate, random.Random)), None)


# --- enough -----------------------------------------------------------------------------------------


def test_a_soak_in_which_enough_happened_is_one() -> None:
    assert list(too_little(PLENTY, 30)) == []


def test_an_empty_soak_is_none(settings: Settings) -> None:
    migrate(settings)
    database = open_database(settings.database)

    problems = list(too_little(tally(database, Seen(), {}), 2))

    database.close()
    assert len(problems) == len(LEAST) + 1
    assert "too little runs of each kind started: 0 in 2 minutes, where 4 are the least" in problems


@pytest.mark.parametrize("what", LEAST)
def test_each_thing_that_happened_too_seldom_is_reported(what: str) -> None:
    (problem,) = too_little(replace(PLENTY, counts={**PLENTY.counts, what: 0}), 30)

    assert problem.startswith(f"too little {what}: 0 in 30 minutes")


def test_a_fault_that_was_never_injected_is_reported_where_there_was_time_for_it() -> None:
    without = replace(PLENTY, done={name: 1 for name in NAMES if name != "Redis is killed"})

    assert list(too_little(without, 2)) == ["too little faults never done: Redis is killed"]
    assert list(too_little(without, 1)) == []
