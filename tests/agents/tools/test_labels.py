"""What the shipped tools and capabilities say of their results and of their calls."""

from dataclasses import replace

import pytest

from agents.catalogue import as_tool
from agents.tools import Tool, tool
from agents.tools.clock import clock
from agents.tools.files import list_files, read_file, write_file
from agents.tools.http import http_get, http_request
from agents.tools.sql.query import sql_query
from agents.tools.supplies import order_supplies
from config.effects import CapabilityKind, Classification


@pytest.mark.parametrize(
    ("shipped", "read", "is_outward"),
    [
        (clock, set(), False),
        (list_files, {"untrusted"}, False),
        (read_file, {"untrusted"}, False),
        (write_file, set(), False),
        (http_get, {"untrusted"}, True),
        (http_request, {"untrusted"}, True),
        (sql_query, {"sensitive", "untrusted"}, False),
        (order_supplies, set(), True),
    ],
)
def test_the_labels_of_shipped_tools(shipped, read, is_outward):
    built = as_tool(shipped)

    assert (built.result_labels, built.is_outward) == (read, is_outward)
    assert built.leaves is (is_outward or shipped is sql_query), "what only asks another system reaches it too"


@tool(effect="pure")
def look(name: str) -> str:
    """Look something up."""
    return name


LOOK = as_tool(look)


@pytest.mark.parametrize(
    ("tool", "is_outward"),
    [
        (LOOK, False),
        (replace(LOOK, hosts=("api.example.org",)), True),
        (replace(LOOK, hosts=("api.example.org",), labels=frozenset({"inward"})), False),
        (replace(LOOK, labels=frozenset({"outward"})), True),
    ],
)
def test_a_tool_with_hosts_is_outward_unless_it_says_otherwise(tool: Tool, is_outward):
    assert (tool.is_outward, tool.leaves) == (is_outward, is_outward)


@pytest.mark.parametrize(
    ("kind", "labels", "leaves"),
    [("connector", (), True), ("commander", (), True), ("transformer", (), False), ("connector", ("inward",), False)],
)
def test_a_pure_call_of_a_connector_reaches_another_system(kind, labels, leaves):
    tool = replace(LOOK, kind=CapabilityKind(kind), labels=frozenset(labels))

    assert (tool.is_outward, tool.leaves) == (False, leaves)


@pytest.mark.parametrize(
    ("tool", "read"),
    [
        (LOOK, set()),
        (replace(LOOK, kind=CapabilityKind.TRANSFORMER, hosts=()), set()),
        (replace(LOOK, kind=CapabilityKind.CONNECTOR), {"untrusted"}),
        (replace(LOOK, hosts=("api.example.org",)), {"untrusted"}),
        (replace(LOOK, kind=CapabilityKind.CONNECTOR, labels=frozenset({"trusted", "orders"})), {"orders"}),
        (replace(LOOK, hosts=("*",), labels=frozenset({"trusted", "untrusted"})), {"untrusted"}),
    ],
)
def test_what_a_tool_reads_from_another_system_is_untrusted_unless_it_says_otherwise(tool: Tool, read: set[str]):
    assert tool.result_labels == read


def test_restricted_data_is_sensitive():
    assert replace(LOOK, classification=Classification.RESTRICTED).result_labels == {"sensitive"}
