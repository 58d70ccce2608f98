"""`./callboard observers` and `observe`, as a person types them; and what the doctor and `/health` say of observers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from agents.runner import Runner
from bus.journal.tailing import Member, ObserverCursors
from cli.doctor.observers import check_observers
from cli.main import status_of
from config.database.engine import Database, open_database
from config.settings import Settings
from observers.tailing.tailed import tailed_observer
from observers.tailing.tailer import Tailer
from tests.tailed_log import TailedLog
from tests.template import upgrade_by_copy
from web.app import create_app

pytestmark = pytest.mark.parity  # what is typed reads settings, which takes a tenth of a second
Type = Callable[..., int]
SOURCE = """
from observers.base import AgentObserver, Tailing
class Refusing(AgentObserver):
    name = "refusing"
    tailing = Tailing(retry_for_s=0.0)
    def on_end(self, agent, payload, context): raise ConnectionError("no route to the ledger")
"""


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
    with closing(open_database(f"sqlite:///{tmp_path / 'state' / 'callboard.db'}")) as opened:
        upgrade_by_copy(opened)
        yield opened


@pytest.fixture
def settings(tmp_path: Path, database: Database) -> Settings:
    return Settings(_env_file=None, state_dir=tmp_path / "state")  # type: ignore[call-arg]  # pydantic-settings' own


@pytest.fixture
def type_(database: Database) -> Iterator[Type]:
    before = Path.cwd()
    yield lambda *words: status_of(["observers", *words])
    os.chdir(before)


@pytest.fixture
def refusing(
    tmp_path: Path, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], str]:
    """Feed an observer that refuses the ends of runs, and return a run of which one event is a dead letter."""
    (tmp_path / "refusing_ledger.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    allowed = settings.model_copy(update={"tool_modules": "refusing_ledger"})

    def feed() -> str:
        log = TailedLog(database)
        run_id = log.run()
        log.turn([run_id])
        tailed = tailed_observer("refusing_ledger:Refusing", allowed, "beginning")
        ObserverCursors(database).register("refusing", tailed.class_path, tailed.delivery, None, "beginning")
        member = Member(id="own_1", host="here", pid=1, version="1")
        Tailer(tailed, allowed, database, member).step()
        ObserverCursors(database).leave("refusing", member)
        return run_id

    return feed


def test_the_list_says_how_to_begin_where_there_is_none(type_: Type, capsys: pytest.CaptureFixture[str]):
    assert type_() == 0
    assert "`./callboard observe NAME` starts one" in capsys.readouterr().err


def test_dead_letters_are_listed_looked_at_and_fed_again(
    type_: Type, refusing: Callable[[], str], capsys: pytest.CaptureFixture[str]
):
    run_id = refusing()

    assert type_() == 0
    listing = capsys.readouterr().out
    assert type_("letters", "refusing") == 0
    letters = capsys.readouterr().out
    assert type_("letters", "refusing", "--json") == 0
    [letter] = orjson.loads(capsys.readouterr().out)
    assert type_("feed", "refusing", str(letter["id"])) == 0

    assert "refusing\tstopped\treliable\t2\tup to date" in listing
    assert "1 dead letter; `./callboard observers letters refusing` lists it" in listing
    assert letters.split("\t")[:5] == [str(letter["id"]), run_id, "3", "end", "1"]
    assert letters.endswith("\tdead\tConnectionError: no route to the ledger\n")
    assert (letter["state"], letter["run_id"]) == ("dead", run_id)
    assert "1 is delivered again" in capsys.readouterr().out


def test_an_observer_is_paused_continued_reset_and_forgotten(
    type_: Type, refusing: Callable[[], str], capsys: pytest.CaptureFixture[str]
):
    refusing()

    assert type_("pause", "refusing") == 0
    assert type_("refusing") == 0
    paused = capsys.readouterr().out
    assert type_("resume", "refusing") == 0
    assert type_("reset", "refusing", "--from", "beginning", "--yes") == 0
    capsys.readouterr()
    assert type_("refusing", "--json") == 0
    [state] = orjson.loads(capsys.readouterr().out)
    assert type_("rm", "refusing", "--yes") == 0
    assert type_() == 0

    assert "refusing\tpaused" in paused
    assert "class: refusing_ledger:Refusing" in paused
    assert (state["position"], state["behind"]) == (0, 3)
    assert "no observer tails the log" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("pause", "refusin"), "no observer 'refusin' tails the log"),
        (("refusin",), "Did you mean 'refusing'"),
        (("letters", "refusin"), "Did you mean 'refusing'"),
        (("feed", "refusing"), "or --all"),
        (("feed", "refusing", "99"), "has no such letter"),
        (("reset", "refusing", "--from", "tomorrow"), "has to be now, beginning, a position"),
        (("reset", "refusing", "--from", "99999", "--yes"), "beyond the last event of the log"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_remedy(
    type_: Type, refusing: Callable[[], str], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
):
    refusing()

    assert type_(*words) != 0

    sentences = " ".join(capsys.readouterr().err.split())
    assert sentence in sentences
    assert "Traceback" not in sentences


def test_an_observer_is_named_once(database: Database, capsys: pytest.CaptureFixture[str]):
    before = Path.cwd()

    assert status_of(["observe", "metrics", "metrics"]) == 2
    os.chdir(before)

    assert "named twice" in capsys.readouterr().err


def test_the_doctor_names_what_is_left_behind_and_what_cannot_be_loaded(
    settings: Settings, database: Database, refusing: Callable[[], str], tmp_path: Path
):
    refusing()
    (tmp_path / "observers.yaml").write_text("ledger: {class: 'nothing_there:Ledger'}\n")
    broken = settings.model_copy(update={"observers_file": str(tmp_path / "observers.yaml")})

    findings = list(check_observers(broken))

    assert [verdict for verdict, _ in findings] == ["fail", "warn"]
    assert "nothing_there" in findings[0][1]
    assert "'refusing' has 1 dead letter;" in findings[1][1]
    ObserverCursors(database).remove("refusing")
    ObserverCursors(database).register("late", "x:Y", "critical", None, "beginning")
    [(verdict, text)] = check_observers(settings)
    assert verdict == "warn"
    assert "no process feeds it; start `./callboard observe late`" in text


def test_health_names_the_slowest_observer_with_its_lag(
    settings: Settings, database: Database, refusing: Callable[[], str]
):
    refusing()
    with closing(Runner.open(settings)) as runner:
        answer = create_app(settings, runner).test_client().get("/health")

    assert answer.json is not None
    slowest = answer.json["slowest_observer"]
    assert slowest == {"name": "refusing", "state": "stopped", "behind_s": 0.0, "dead_letters": 1, "is_late": True}
