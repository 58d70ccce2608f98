"""Kills the runs of reference at every place they pass, on both routes and both databases: `./callboard soak --sweep`.

Each must end as the run that was never killed, with the same conversation and the same ledger outside.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

import orjson

from cli.crashlab.lab import Case, Lab, Undisturbed
from cli.crashlab.places import Place
from cli.crashlab.setting_up import SqliteTemplate, lab_settings, warm
from cli.crashlab.trial import Subject
from config.database.migrate import migrate
from config.definitions.loading import load_definition
from tests.backends import PostgresCluster, RedisServer
from tests.failure_model import Row as FailureRow
from tests.failure_model import row_of, rows
from tests.reference_workflows import SCENARIOS
from tests.soak.models import model_of, model_process
from tests.soak.workers import WorkerLab, place_for_a_worker

ROUTES, DATABASES = ("sync", "async"), ("sqlite", "postgres")
WITH_A_BROKER = ("the wake-up", "publish")
"""The row that only a fleet with a broker passes; the lab has none."""
HEAD = """
name: Reference
model: {model}
api_base: {url}
{more}
"""


@dataclass(kw_only=True, slots=True)
class Row:
    """What came of one run of reference on one route and one database."""

    scenario: str
    route: str
    database: str
    killed: int = 0
    missed: int = 0
    """Places the run did not come by this time."""
    passed: list[FailureRow] = field(default_factory=list)
    """Rows of docs/failure-model.md whose places the run passes undisturbed."""
    violations: list[dict[str, object]] = field(default_factory=list)

    def add(self, case: Case, then: str = "") -> None:
        self.killed += case.was_killed
        self.missed += not case.was_killed
        if case.violations:
            self.violations.append(
                {
                    "failpoint": str(case.place),
                    "where": f"{case.place.where}{then}",
                    "asked": case.asked,
                    "wrong": case.violations,
                }
            )

    def check(self, first: Undisturbed) -> None:
        """Compare what the last undisturbed run returned with what the run of reference says."""
        output, expected = first.records[-1].run["output"], SCENARIOS[self.scenario].output
        if expected is not None and output != expected:
            wrong = f"its output is {output!r:.200} instead of {expected!r:.200}"
            _say(f"{self.scenario}, {self.route}, {self.database}, undisturbed: {wrong}")
            self.violations.append({"failpoint": "", "where": "undisturbed", "asked": [], "wrong": [wrong]})

    def __str__(self) -> str:
        verdict = f"{len(self.violations)} differ" if self.violations else "all same"
        missed = f", {self.missed} not passed" if self.missed else ""
        return f"{self.scenario:<20} {self.route:<13} {self.database:<9} {self.killed:>4} killed{missed}  {verdict}"


class Sweep:
    """The labs of every combination asked for, in one temporary folder."""

    def __init__(self, folder: Path, url: str, cluster: PostgresCluster | None, redis_url: str | None) -> None:
        self._folder = folder
        self._cluster = cluster
        self._redis_url = redis_url
        self._url = url
        agents = folder / "agents"
        agents.mkdir()
        for number, (name, run) in enumerate(SCENARIOS.items()):
            text = HEAD.format(model=model_of(name), url=url, more=run.definition("tests.soak.tools"))
            (agents / f"reference-{number}.yaml").write_text(text.lstrip())
        self.settings = lab_settings(folder, str(agents))
        for file in sorted(agents.iterdir()):
            definition = load_definition(file)
            warm(definition, definition.model, self.settings)
        self._template = SqliteTemplate(self.settings, folder)

    def lab(self, scenario: str, route: str, database: str) -> Lab:
        """Return the lab of one combination."""
        subject, folder = self._subject(scenario, route), self._room(scenario, route, database)
        return Lab(subject, self.settings, folder, self._databases(database))

    def worker_lab(self, scenario: str, database: str, first: Undisturbed) -> WorkerLab:
        """Return the lab in which a real Celery worker on a real Redis is killed."""
        subject, folder = self._subject(scenario, "async"), self._room(scenario, "worker", database)
        assert self._redis_url is not None
        its = {"redis_url": self._redis_url, "deployment": folder.name, "slots": 4}
        return WorkerLab(subject, self.settings.model_copy(update=its), folder, self._databases(database), first)

    def _subject(self, scenario: str, route: str) -> Subject:
        run = SCENARIOS[scenario]
        return Subject(
            call=run.called,
            workflow_input=run.workflow_input,
            signals=run.signals,
            agent_id=f"reference-{list(SCENARIOS).index(scenario)}",
            objective="Do it.",
            is_detached=route == "async",
            act_at=run.act_at,
            reply=run.reply and run.reply._replace(afterwards=self._resume_streams if run.is_resumed else lambda: None),
            then=run.then,
            is_same_each_time=True,
        )

    def _resume_streams(self) -> None:
        """Have the model server send the rest of the answers in which it has stopped."""
        urlopen(urljoin(self._url, "/resume"), timeout=10).close()

    def _room(self, scenario: str, *more: str) -> Path:
        folder = self._folder / "-".join((scenario.replace(" ", "-"), *more))
        folder.mkdir()
        return folder

    def _databases(self, database: str) -> Callable[[Path], str]:
        """Return what makes a case's database; on Postgres a lab's cases share one, where threads tell runs apart."""
        if database == "sqlite":
            return self._template
        assert self._cluster is not None
        url = self._cluster.new_database()
        migrate(self.settings.model_copy(update={"database_url": url}))
        return lambda _folder: url


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep, print a row for each combination, and return 1 if anything differed."""
    args = _parser().parse_args(arguments)
    seed = args.seed if args.seed is not None else random.randrange(1_000_000)
    databases = args.database or ("sqlite", *(("postgres",) if args.postgres else ()))
    _say(f"seed {seed}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callboard-sweep-")))
        url = stack.enter_context(model_process())
        cluster = stack.enter_context(PostgresCluster()) if "postgres" in databases else None
        redis_url = stack.enter_context(RedisServer(folder)).url if args.workers else None
        sweep = Sweep(folder, url, cluster, redis_url)
        rows = []
        for row in _rows(sweep, args, databases, random.Random(seed)):  # no secret
            rows.append(row)
            print(row, file=sys.stderr if args.json else sys.stdout, flush=True)
    if args.json:
        print(orjson.dumps({"seed": seed, "rows": [asdict(row) for row in rows]}).decode())
    differing = sum(len(row.violations) for row in rows)
    _say(f"{sum(row.killed for row in rows)} killed, {f'{differing} differ' if differing else 'all same'}")
    drift = _drift(rows, is_whole=not (args.scenario or args.route))
    for line in drift:
        _say(line)
    return 1 if differing or drift else 0


def _drift(rows_swept: Sequence[Row], *, is_whole: bool) -> list[str]:
    """Return how docs/failure-model.md differs from the places that the runs passed; all of them pass every row."""
    passed = {row for swept in rows_swept for row in swept.passed}
    lacking = [f"docs/failure-model.md has no row: {what} ({point})" for what, point in sorted(passed - rows())]
    unpassed = sorted(rows() - passed - {WITH_A_BROKER}) if is_whole else []
    return lacking + [f"no run passes this row of docs/failure-model.md: {what} ({point})" for what, point in unpassed]


def _rows(sweep: Sweep, options: argparse.Namespace, databases: Sequence[str], draw: random.Random) -> Iterator[Row]:
    labs = {
        (scenario, route, database): sweep.lab(scenario, route, database)
        for scenario in options.scenario or SCENARIOS
        for route in options.route or ROUTES
        if route in SCENARIOS[scenario].routes
        for database in databases
    }
    chosen: dict[tuple[str, str, str], Sequence[Place]] = {its: lab.undisturbed.places for its, lab in labs.items()}
    if options.each_row:
        chosen = _one_of_each_row(chosen, draw)
    if options.sample:
        everything = [(its, point) for its, places in chosen.items() for point in places]
        picked = draw.sample(everything, min(options.sample, len(everything)))
        chosen = {its: [point for of, point in picked if of == its] for its in labs}
    for its, lab in labs.items():
        passed = sorted({row_of(place) for place in lab.undisturbed.places})
        row = Row(scenario=its[0], route=its[1], database=its[2], passed=passed)
        row.check(lab.undisturbed)
        for location in chosen[its]:
            _add(row, lab.kill(location))
            for then in lab.places_after(location) if options.twice else ():
                _add(row, lab.kill(location, then), f" and then {then}, {then.where}")
        yield row
        if options.workers and its[1] == "async" and SCENARIOS[its[0]].act_at is None:
            yield _worker_row(sweep, its[0], its[2], lab.undisturbed, draw)


def _one_of_each_row(
    chosen: Mapping[tuple[str, str, str], Sequence[Place]], draw: random.Random
) -> dict[tuple[str, str, str], Sequence[Place]]:
    """Return one place at random of each row of docs/failure-model.md and database, whichever runs pass it."""
    everything = [(its, place) for its, places in chosen.items() for place in places]
    draw.shuffle(everything)
    kept = {(row_of(place), its[2]): (its, place) for its, place in everything}.values()
    return {its: [place for of, place in kept if of == its] for its in chosen}


def _worker_row(sweep: Sweep, scenario: str, database: str, first: Undisturbed, draw: random.Random) -> Row:
    row = Row(scenario=scenario, route="celery worker", database=database)
    _add(row, sweep.worker_lab(scenario, database, first).kill(place_for_a_worker(first, draw)))
    return row


def _add(row: Row, case: Case, then: str = "") -> None:
    row.add(case, then)
    for violation in case.violations:
        _say(f"{row.scenario}, {row.route}, {row.database}: {case.place}, {case.place.where}{then}: {violation}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="This one; may be repeated.")
    parser.add_argument("--route", action="append", choices=ROUTES)
    parser.add_argument("--database", action="append", choices=DATABASES)
    parser.add_argument("--postgres", action="store_true", help="On Postgres too.")
    parser.add_argument("--sample", type=int, help="Kill so often in all, at random.")
    parser.add_argument("--each-row", action="store_true", help="Kill once in each row of docs/failure-model.md.")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--twice", action="store_true", help="And kill the next owner, at every place it passes.")
    parser.add_argument("--workers", action="store_true", help="And kill one real Celery worker for each run.")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
