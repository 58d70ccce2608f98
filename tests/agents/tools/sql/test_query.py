"""Which databases an agent may ask, and what is said where it may not."""

import asyncio

import pytest

from agents.catalogue import forget, tools_of
from agents.errors import ArgumentsInvalid
from agents.tools.execution.executor import call_tool
from agents.tools.schema import build_tool, validate_arguments
from agents.tools.sql.query import MAX_SQL, place_of, sql_query
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import load_definition
from config.effects import Effect
from config.errors import SettingInvalid, ToolFailed
from config.redaction import redact
from config.settings import read_settings

BASE = "name: A\nmodel: demo/assistant\nsystem_prompt: Be brief.\n"


@pytest.fixture
def offered(settings):
    return settings.model_copy(update={"sql_databases": "shop=SHOP_URL, stock=STOCK_URL"})


@pytest.fixture
def tool(tmp_path, offered):
    forget()

    def tool(fields="tools: [sql_query]\ndatabases: [shop]\n"):
        file = tmp_path / "helper.yaml"
        file.write_text(BASE + fields)
        return tools_of(load_definition(file), offered)["sql_query"]

    return tool


def test_it_only_reads():
    assert build_tool(sql_query).effect is Effect.PURE


def test_the_schema_names_the_databases_of_the_agent(tool):
    own = tool()

    assert own.parameters["properties"]["database"]["enum"] == ["shop"]
    with pytest.raises(ArgumentsInvalid, match="shop"):
        validate_arguments(own, {"database": "stock", "sql": "SELECT 1"})


def test_another_database_is_refused_also_past_the_schema(tool, context):
    with pytest.raises(ToolFailed, match="may not ask 'stock'"):
        asyncio.run(call_tool(tool(), {"database": "stock", "sql": "SELECT 1"}, context, 5))


def test_without_an_agent_it_asks_no_database(call):
    with pytest.raises(ToolFailed, match="databases:"):
        call(sql_query, database="shop", sql="SELECT 1")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("tools: [sql_query]\n", "databases: is missing"),
        ("tools: [sql_query]\ndatabases: [shopp]\n", "Did you mean 'shop'?"),
        ("tools: [sql_query]\ndatabases: ['sqlite:///etc/passwd']\n", "CALLBOARD_SQL_DATABASES"),
        ("tools: [sql_query]\ndatabases: [shop, shop]\n", "listed twice"),
    ],
)
def test_a_definition_says_which_databases(tool, fields, words):
    with pytest.raises(DefinitionInvalid, match=words.replace("?", r"\?")):
        tool(fields)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "no variable SHOP_URL"),
        ("no hidden url", "is no URL"),
        ("mysql://a:hidden@c/d", "neither SQLite nor PostgreSQL"),
        ("sqlite://", "neither SQLite nor PostgreSQL"),
        ("sqlite:///:memory:", "neither SQLite nor PostgreSQL"),
    ],
)
def test_an_address_that_cannot_be_used_is_not_repeated(offered, address, words):
    with pytest.raises(ToolFailed, match=words) as caught:
        place_of("shop", offered, {"SHOP_URL": address})

    assert "hidden" not in str(caught.value)


def test_the_password_of_an_address_is_a_secret(offered):
    database = place_of("shop", offered, {"SHOP_URL": "postgresql+psycopg://reader:s3cr3t-w0rd@db/shop"})

    assert database.url == "postgresql://reader:s3cr3t-w0rd@db/shop"
    assert redact("it is s3cr3t-w0rd") == "it is [redacted]"


@pytest.mark.parametrize(
    "value", ["shop", "shop=", "=X", "shop=postgresql://a:hidden-word@b/c", "shop=CALLBOARD_X", "a b=C"]
)
def test_a_setting_that_names_no_variable_is_refused(value):
    with pytest.raises(SettingInvalid) as caught:
        read_settings(sql_databases=value)

    assert "hidden-word" not in str(caught.value)


@pytest.mark.parametrize("sql", ["", "  \n", "SELECT '\0'", "SELECT '\ud800'", "x" * (MAX_SQL + 1)])
def test_what_is_no_query_is_refused_before_the_database_is_asked(ask, sql):
    with pytest.raises(ToolFailed, match=r"write one SELECT|the limit is"):
        ask("sqlite:////nowhere.db", sql)
