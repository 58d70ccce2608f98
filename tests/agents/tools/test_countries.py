"""Questions to the data set: everything can be read, nothing else can be done."""

import csv
import os
import resource
import sqlite3
import subprocess
import time

import pytest

from agents.tools import countries
from agents.tools.countries import DATA, query_countries
from agents.tools.isolation import sql_process
from config.errors import ToolFailed


@pytest.mark.parity
def test_answers_with_columns_and_rows():
    answer = query_countries("SELECT name, population FROM countries ORDER BY population DESC LIMIT 3")

    assert answer == {
        "columns": ["name", "population"],
        "rows": [["India", 1451000000], ["China", 1419000000], ["United States", 345000000]],
    }


@pytest.mark.parity
def test_tables_can_be_joined():
    answer = query_countries(
        "SELECT c.name, count(*) n FROM countries c JOIN borders b ON b.country = c.code "
        "GROUP BY c.code ORDER BY n DESC LIMIT 2"
    )

    assert sorted(answer["rows"]) == [["China", 14], ["Russia", 14]]


@pytest.mark.parity
def test_many_rows_are_cut_and_said_to_be():
    answer = query_countries("SELECT a.name FROM countries a, countries b")

    assert len(answer["rows"]) == 200
    assert "first 200 rows" in answer["note"]


@pytest.mark.parity
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM countries",
        "UPDATE countries SET name = 'x'",
        "INSERT INTO borders VALUES ('a', 'b')",
        "DROP TABLE countries",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "ATTACH DATABASE '/tmp/x' AS y",
        "PRAGMA query_only = OFF",
        "PRAGMA table_info(countries)",
        "VACUUM INTO '/tmp/stolen'",
        "BEGIN",
        "SELECT load_extension('x')",
        "SELECT zeroblob(1000000000)",
        "SELECT readfile('/etc/passwd')",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM pragma_database_list",
        "REINDEX",
        "ANALYZE",
        "CREATE VIRTUAL TABLE x USING fts5(y)",
        "SELECT writefile('/tmp/x', 'y')",
    ],
)
def test_nothing_but_reading_the_two_tables_is_allowed(sql):
    before = DATA.read_bytes()

    with pytest.raises(ToolFailed, match=r"only SELECT|no such function"):
        query_countries(sql)

    assert DATA.read_bytes() == before
    assert sorted(os.listdir(DATA.parent)) == ["README.md", "borders.csv", "countries.csv", "countries.sqlite", "goals"]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT nme FROM countries", "Did you mean 'name'?"),
        ("SELECT * FROM country", "Did you mean 'countries'?"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("", "write one SELECT"),
        ("-- nothing", "write one SELECT"),
        ("SELEC 1", "SQLite says"),
        ("SELECT '\0'", "SQLite says"),
        ("SELECT '\ud800'", "SQLite says"),
        ("SELECT " + "x" * 5000, "limit is 4,000"),
        (f"SELECT {'hex(' * 9}group_concat(a.name || b.name){')' * 9} FROM countries a, countries b", "too big"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(sql, words):
    with pytest.raises(ToolFailed, match=words):
        query_countries(sql)


@pytest.mark.parity
def test_an_endless_query_is_ended(monkeypatch):
    monkeypatch.setattr(countries, "TIME_S", 0.05)

    with pytest.raises(ToolFailed, match="longer than"):
        query_countries("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n")


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
LONG = "(SELECT group_concat(a.name || b.name, '') FROM countries a, countries b)"
ATTACKS = {
    "one instruction that writes 2 GB": "SELECT printf('%.*c', 2000000000, 'x')",
    "many of them": "SELECT " + ", ".join(["length(printf('%.*c', 2000000000, 'x'))"] * 50),
    "a search in long text": f"{ENDLESS} SELECT sum(instr({LONG}, {LONG} || 'x')) FROM n",
    "a replacement that grows": f"SELECT replace(replace({LONG}, 'a', {LONG}), 'e', {LONG})",
    "zeros": "SELECT hex(zeroblob(1000000000))",
    "random bytes": "SELECT hex(randomblob(1000000000))",
    "one long text": f"{ENDLESS} SELECT group_concat(x) FROM n",
    "rows without end": f"{ENDLESS} SELECT count(*) FROM n",
    "a product": "SELECT count(*) FROM countries a, countries b, countries c, countries d, borders e, borders f",
    "a sort that needs memory": f"{ENDLESS} SELECT hex(hex(printf('%9999d', x))) h FROM n ORDER BY h LIMIT 1 OFFSET 9",
    "a pattern": f"{ENDLESS} SELECT sum('{'a' * 99}' LIKE '{'%a' * 49}%b') FROM n",
    "a long pattern": f"SELECT 'x' GLOB '{'*a' * 900}'",
    "nested text": f"{ENDLESS} SELECT json_group_array(x) FROM n",
    "json": "SELECT json('" + "[" * 1900 + "]" * 1900 + "')",
    "depth": "SELECT " + "(" * 1500 + "1" + ")" * 1500,
    "many columns": "SELECT " + ",".join(["*"] * 100) + " FROM countries a, countries b",
}


@pytest.mark.parity
@pytest.mark.parametrize("sql", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_ends_in_its_time_and_with_a_sentence(monkeypatch, sql):
    monkeypatch.setattr(countries, "TIME_S", 0.5)
    monkeypatch.setattr(sql_process, "START_S", 60.0)
    used_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_s = time.thread_time()

    with pytest.raises(ToolFailed, match=r"longer than|more memory|only SELECT|SQLite says"):
        query_countries(sql)

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert used.ru_utime + used.ru_stime - used_before.ru_utime - used_before.ru_stime < 2
    assert time.thread_time() - started_s < 0.5


@pytest.mark.parity
def test_a_large_answer_is_cut_before_it_leaves_the_process():
    answer = query_countries(
        f"SELECT {', '.join(['printf(' + chr(39) + '%9999d' + chr(39) + ', 1)'] * 90)} FROM countries"
    )

    assert "only the first" in answer["note"]
    assert sum(len(str(value)) for row in answer["rows"] for value in row) < 2 * sql_process.MAX_ANSWER


@pytest.mark.parity
def test_the_process_gets_no_environment(monkeypatch):
    seen = {}
    real = subprocess.Popen

    def popen(*arguments, **options):
        seen.update(options)
        return real(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    query_countries("SELECT 1")

    assert seen["env"] == {}


def test_a_query_that_waits_for_a_process_gives_up(monkeypatch):
    monkeypatch.setattr(sql_process, "START_S", 0.05)
    for _ in range(sql_process.MAX_PROCESSES):
        assert sql_process._places.acquire(blocking=False)
    try:
        with pytest.raises(ToolFailed, match="longer than"):
            query_countries("SELECT 1")
    finally:
        for _ in range(sql_process.MAX_PROCESSES):
            sql_process._places.release()


def rows_of(name):
    with (DATA.parent / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


@pytest.fixture
def database():
    connection = sqlite3.connect(f"{DATA.as_uri()}?mode=ro&immutable=1", uri=True)
    yield connection
    connection.close()


def test_the_database_holds_what_the_readable_files_say(database):
    stored = database.execute("SELECT code, name, capital, continent, area_km2, population FROM countries").fetchall()
    written = [(a, b, c, d, float(e), int(f)) for a, b, c, d, e, f in rows_of("countries")]

    assert sorted(stored) == sorted(written)
    assert sorted(database.execute("SELECT * FROM borders")) == sorted(rows_of("borders"))


def test_the_data_agrees_with_itself(database):
    facts = {
        code: row
        for code, *row in database.execute("SELECT code, name, continent, area_km2, population FROM countries")
    }
    borders = set(database.execute("SELECT country, neighbour FROM borders"))

    assert len(facts) == 195
    continents = {"Africa", "Asia", "Europe", "North America", "Oceania", "South America"}
    assert {row[1] for row in facts.values()} == continents
    assert all((there, here) in borders and here != there for here, there in borders)
    assert {code for pair in borders for code in pair} <= facts.keys()
    assert 7.9e9 < sum(row[3] for row in facts.values()) < 8.3e9
    assert 1.30e8 < sum(row[2] for row in facts.values()) < 1.37e8
