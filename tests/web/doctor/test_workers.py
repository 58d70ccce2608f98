import os
from socket import gethostname

import pytest
from sqlalchemy import text

from bus.journal.stores import WorkerRow, Workers, pool_problem
from config.clock import epoch_ms
from config.database.engine import open_database
from config.database.migrate import migrate
from config.settings.project import own_version
from tests.web.doctor.conftest import only, verdicts
from web.doctor.workers import check_workers, clocks, connections, lost, own_skew_ms


def test_several_workers_of_one_machine_are_fine_on_sqlite(settings, alive):
    alive("own_1")
    alive("own_2")

    assert only(check_workers(settings)) == ("ok", "2 alive")


def test_workers_of_two_machines_on_one_sqlite_file_are_refused(settings, alive):
    alive("own_1", host="alpha")
    alive("own_2", host="beta")

    verdict, text = only(check_workers(settings))

    assert verdict == "fail"
    assert "2 machines (alpha, beta)" in text
    assert "CALLBOARD_DATABASE_URL" in text


def test_a_worker_that_was_killed_is_reported_for_an_hour(settings, database, alive):
    alive("own_1", host="alpha")
    with database.write() as connection:
        connection.execute(text("UPDATE workers SET seen_ms = seen_ms - 60000"))
    alive("own_2")

    verdict, sentence = only(check_workers(settings))

    assert (verdict, "1 worker was lost within an hour (alpha process 7)" in sentence) == ("warn", True)


def test_of_many_lost_workers_five_are_named():
    ((verdict, sentence),) = lost([{"host": "alpha", "pid": pid, "state": "lost"} for pid in range(7)])

    assert verdict == "warn"
    assert sentence.startswith("7 workers were lost within an hour (alpha process 0, ")
    assert "alpha process 4 and 2 others)" in sentence


def test_a_worker_of_another_release_is_reported(settings, alive):
    alive(version="0.0.7")

    verdict, text = only(check_workers(settings))

    assert verdict == "warn"
    assert f"release 0.0.7 are alive, and this is {own_version()}" in text


def test_a_key_that_some_workers_lack_is_reported_with_where(settings, alive):
    alive("own_1", missing_keys={"A_KEY": ["assistant"], "B_KEY": ["clerk"]}, pid=11)
    alive("own_2", missing_keys={"B_KEY": ["clerk"]}, pid=12)

    verdict, text = only(check_workers(settings))

    assert verdict == "warn"
    for words in ("1 of 2 workers lack the model's key A_KEY", "process 11", "runs of assistant", "Set it there"):
        assert words in text


def test_a_worker_that_started_before_a_tool_was_edited_is_reported(settings, alive, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("config.definitions.plugins.get_path", lambda _: str(tmp_path / "packages"))
    agents = {"agents_dir": str(tmp_path / "own_agents")}
    (tmp_path / "own_agents").mkdir()
    text = "{name: A, model: demo/instant, system_prompt: x, tools: ['my_late_tools:look', 'celery:a.b', 'mcp:c/d']}"
    (tmp_path / "own_agents" / "a.yaml").write_text(text)
    file = tmp_path / "my_late_tools.py"
    file.write_text("")
    alive(host=gethostname())
    ours = settings.model_copy(update=agents)

    os.utime(file, (1, 1))
    assert only(check_workers(ours)) == ("ok", "1 alive")
    os.utime(file, (2**32, 2**32))
    verdict, message = only(check_workers(ours))

    assert verdict == "warn"
    assert "Restart the workers: they started before my_late_tools.py changed." in message


@pytest.mark.parametrize(
    ("skew_ms", "verdict", "words"),
    [
        (2_001, "warn", "2.0 s ahead of"),
        (-30_000, "warn", "30.0 s behind"),
        (60_001, "fail", "60.0 s ahead of"),
        (-3_600_000, "fail", "3600.0 s behind"),
    ],
)
def test_a_clock_that_is_wrong_is_reported_with_the_consequence(skew_ms, verdict, words):
    outcome, text = only(clocks([{"skew_ms": skew_ms, "host": "alpha", "pid": 7}]))

    assert outcome == verdict
    assert f"worker 7 on alpha is {words} the database's" in text
    assert "no run is lost" in text
    assert "set-ntp true" in text


def test_clocks_that_nearly_agree_are_fine_and_so_are_those_that_did_not_say():
    assert list(clocks([{"skew_ms": 2_000}, {"skew_ms": -2_000}, {"skew_ms": None}])) == []


def test_without_a_schema_there_is_nothing_to_say(settings, tmp_path):
    assert list(check_workers(settings.model_copy(update={"database_url": f"sqlite:///{tmp_path / 'x.db'}"}))) == []


@pytest.fixture
def on_postgres(settings, postgres_url):
    there = settings.model_copy(update={"database_url": postgres_url})
    migrate(there)
    return there


@pytest.fixture
def postgres(on_postgres):
    opened = open_database(on_postgres.database)
    yield opened
    opened.close()


def row(name: str, host: str) -> WorkerRow:
    return WorkerRow(id=name, host=host, pid=7, pool="threads", slots=9, busy=0, queue="runs", version=own_version())


@pytest.mark.postgres
def test_a_worker_whose_clock_is_off_is_found_by_the_databases(on_postgres, postgres):
    Workers(postgres).renew(row("own_1", "alpha"))
    Workers(postgres).renew(row("own_2", "beta"))
    assert only(check_workers(on_postgres)) == ("ok", "2 alive on 2 machines")

    Workers(postgres).renew(row("own_2", "beta"), lambda: epoch_ms() + 20_000)
    Workers(postgres).renew(row("own_3", "gamma"), lambda: epoch_ms() - 3_600_000)

    findings = sorted(check_workers(on_postgres))
    assert [verdict for verdict, _ in findings] == ["fail", "warn"]
    assert "on gamma" in findings[0][1]
    assert "behind" in findings[0][1]
    assert "on beta" in findings[1][1]


@pytest.mark.postgres
def test_this_machines_clock_is_measured_against_the_databases(on_postgres, postgres):
    assert verdicts(check_workers(on_postgres)) == ["ok"]

    assert 590_000 < own_skew_ms(postgres, lambda: epoch_ms() + 600_000) < 610_000


@pytest.mark.parametrize(
    ("pool_size", "workers", "allowed", "verdict"), [(20, 2, 90, None), (20, 2, 89, "warn"), (91, 0, 100, "fail")]
)
def test_pools_that_need_more_connections_than_postgres_allows_are_reported(
    settings, pool_size, workers, allowed, verdict
):
    pooled = settings.model_copy(update={"database_pool_size": pool_size, "database_max_overflow": 10})

    findings = list(connections(pooled, workers, allowed))

    assert [outcome for outcome, _ in findings] == ([verdict] if verdict else [])
    if verdict:
        assert f"may open {(pool_size + 10) * (workers + 1)} connections" in findings[0][1]
        assert f"allows {allowed};" in findings[0][1]


def test_a_pool_that_is_too_small_for_the_slots_is_reported(settings):
    narrow = settings.model_copy(update={"database_pool_size": 10, "database_max_overflow": 2})

    assert list(connections(narrow, 1, 100)) == [("warn", pool_problem(narrow))]


@pytest.mark.postgres
def test_the_connections_that_postgres_allows_are_asked_for(on_postgres):
    pooled = on_postgres.model_copy(update={"database_pool_size": 500})

    verdict, text = only(check_workers(pooled))

    assert verdict == "fail"
    assert "Postgres allows 197;" in text  # tests/backends.py: 200, and Postgres keeps 3 for superusers
