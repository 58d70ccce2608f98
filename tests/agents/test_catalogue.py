"""Tools by name: through one door for ours and for plugins."""

import importlib
import sys

import pytest

from agents import catalogue
from agents.catalogue import TOOLS, find_tool, tools_of
from config.definitions import dotted_path
from config.definitions.errors import DefinitionInvalid, ToolUnknown
from config.definitions.loading import load_definition
from config.effects import Effect
from config.settings import read_settings
from config.settings.project import shipped_entries

BUILT_IN = sorted(shipped_entries("callboard.tools"))


@pytest.fixture
def settings():
    return read_settings()


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A user's module beside the rooms."""
    (tmp_path / "my_tools.py").write_text(
        "from agents.tools import tool\n"
        "@tool(effect='pure')\ndef lookup_order(number: int) -> str:\n    'Look an order up.'\n"
        "    return f'order {number}'\n"
        "@tool(name='clock')\ndef my_clock() -> str:\n    'Tell the time.'\n    return 'late'\n"
        "class Watcher: pass\nNUMBER = 3\n"
    )
    (tmp_path / "my_broken.py").write_text("raise SystemExit('no')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    for name in ("my_tools", "my_broken", "my_borrowed", "my_shop", "shop_tools", "shop_inner", "shop_front"):
        sys.modules.pop(name, None)
    catalogue.forget()


@pytest.fixture
def agent(tmp_path):
    def agent(**fields):
        path = tmp_path / "helper.yaml"
        lines = [
            "name: A",
            "model: demo/assistant",
            "system_prompt: x",
            *(f"{key}: {value}" for key, value in fields.items()),
        ]
        path.write_text("\n".join(lines))
        return load_definition(path)

    return agent


def test_what_ships_is_registered_as_a_plugin_would_be(settings):
    assert TOOLS.names(settings) == BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_built_in_can_be_built_under_its_name(settings, name):
    tool = find_tool(name, settings)

    assert tool.name == name
    assert len(tool.description) > 20
    assert all("description" in schema for schema in tool.parameters["properties"].values())


def test_a_dotted_path_is_imported(settings, plugin):
    tool = find_tool("my_tools:lookup_order", settings)

    assert (tool.name, tool.effect, tool.function(number=7)) == ("lookup_order", Effect.PURE, "order 7")


def test_of_the_modules_that_ship_only_what_is_registered_can_be_built(settings):
    entries = [entry for group in dotted_path.GROUPS for entry in shipped_entries(group).values()]
    named = {
        f"{entry.module}:{name}" for entry in entries for name in dir(importlib.import_module(entry.module))
    }  # with what these modules have imported: `agents.tools.countries:ask` reads every SQLite file

    built = {path for path in named if _can_be_built(path, settings)}

    assert len(named) > 100
    assert built == {entry.value for entry in shipped_entries("callboard.tools").values()}


def _can_be_built(path, settings):
    try:
        find_tool(path, settings)
    except ToolUnknown:
        return False
    return True


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        (
            "hosts=['api.example.org']",
            r"@tool\(hosts=\.\.\.\): hosts cannot be enforced for a function, .* runner `http`",
        ),
        ("hosts=[]", r"@tool\(hosts=\.\.\.\): hosts cannot be enforced for a function, .* leave them out"),
        ("effect='pur'", r"@tool\(effect='pur'\): it is one of 'pure', 'idempotent', .* Did you mean 'pure'\?"),
        ("on_expiry='wait'", r"on_expiry='wait'\): it is one of 'fail', 'reject', 'take_default'"),
        ("roles=['boss']", r"roles='boss'\): it is one of 'viewer', "),
        ("classification='secrt'", r"classification='secrt'\): it is one of "),
        ("sticky=['thred']", r"sticky='thred'\): it is one of 'thread', 'tool'"),
    ],
)
def test_a_slip_in_an_argument_of_tool_gets_the_values_and_the_users_line(plugin, tmp_path, argument, sentence):
    (tmp_path / "my_slip.py").write_text(
        f"from agents.tools import tool\n\n@tool({argument})\ndef look() -> str:\n    'Look.'\n    return ''\n"
    )

    with pytest.raises(ToolUnknown, match=rf"{sentence}.* at .*my_slip\.py:3\.$"):
        find_tool("my_slip:look", read_settings())


@pytest.mark.parametrize("name", ["popen", "given", "ready", "kept", "Shell.pipe"])
def test_a_function_is_no_tool_where_it_was_only_imported(settings, plugin, tmp_path, name):
    (tmp_path / "my_borrowed.py").write_text(
        "from os import popen\nfrom functools import partial, lru_cache\nfrom agents.tools.tool import Tool\n"
        "given = partial(popen, mode='r')\nkept = lru_cache(popen)\n"
        "ready = Tool(name='ready', description='x', parameters={}, function=popen)\n"
        "class Shell:\n    pipe = staticmethod(popen)\n"
    )

    with pytest.raises(ToolUnknown, match=r"imported there from 'os', and 'os' is neither.*TOOL_MODULES=\.,os\."):
        find_tool(f"my_borrowed:{name}", settings)


def test_a_tool_of_an_installed_plugin_may_be_named_where_it_was_imported(plugin, tmp_path, monkeypatch):
    (tmp_path / "away").mkdir()
    (tmp_path / "away/shop_tools.py").write_text(
        "from agents.tools import tool\n"
        "@tool(effect='pure')\ndef stock() -> str:\n    'Count what is there.'\n    return '3'\n"
    )
    (tmp_path / "my_shop.py").write_text(
        "from agents.tools.calculator import calculator\nfrom my_tools import lookup_order\n"
        "from shop_tools import stock\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "away")
    installed = read_settings(plugins="shop_tools")

    for name in ("stock", "lookup_order", "calculator"):
        assert find_tool(f"my_shop:{name}", installed).name == name
    with pytest.raises(ToolUnknown, match="imported there from 'shop_tools'"):
        find_tool("my_shop:stock", read_settings())


def test_a_registered_path_may_lead_to_a_function_of_another_package(plugin, tmp_path, monkeypatch):
    (tmp_path / "away").mkdir()
    (tmp_path / "away/shop_inner.py").write_text("def stock() -> str:\n    'Count what is there.'\n    return '3'\n")
    (tmp_path / "away/shop_front.py").write_text("from shop_inner import stock\n")
    monkeypatch.syspath_prepend(tmp_path / "away")

    assert find_tool("stock", read_settings(plugins="shop_front:stock")).function() == "3"


def test_a_plugin_of_the_settings_has_a_short_name(plugin):
    settings = read_settings(plugins="my_tools:lookup_order, my_tools:Watcher")

    assert find_tool("lookup_order", settings).function(number=7) == "order 7"
    assert "lookup_order" in TOOLS.names(settings)


def test_built_ins_can_be_turned_off():
    settings = read_settings(builtins=False)

    assert TOOLS.names(settings) == []
    with pytest.raises(ToolUnknown, match="CALLBOARD_BUILTINS turns the shipped tools off"):
        find_tool("clock", settings)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("calculater", "Did you mean 'calculator'?"),
        ("my_tools.lookup_order", "Did you mean 'my_tools:lookup_order'?"),
        ("nowhere_at_all.x", "write a dotted path, package.module:function"),
        ("nowhere_at_all:x", "cannot be imported"),
        ("my_tools:lokup_order", "Did you mean 'lookup_order'?"),
        ("my_tools:Watcher", "is no function"),
        ("my_tools:NUMBER", "is no function"),
        ("my_broken:x", "SystemExit: no"),
    ],
)
def test_an_unknown_tool_is_answered_with_what_to_write(settings, plugin, path, words):
    with pytest.raises(ToolUnknown) as caught:
        find_tool(path, settings)

    assert words in str(caught.value)


def test_an_agents_tools_carry_its_overrides(settings, agent):
    definition = agent(
        tools="[clock, calculator]", tool_overrides="{clock: {effect: unsafe, timeout_s: 2, confirm: true}}"
    )

    tools = tools_of(definition, settings)

    assert list(tools) == ["clock", "calculator"]
    assert (tools["clock"].effect, tools["clock"].timeout_s, tools["clock"].confirm) == (Effect.UNSAFE, 2, True)
    assert tools["calculator"].effect is Effect.PURE


def test_tools_are_built_once_for_a_content(settings, agent):
    assert tools_of(agent(tools="[clock]"), settings) is tools_of(agent(tools="[clock]"), settings)
    assert tools_of(agent(tools="[clock]"), settings) is not tools_of(agent(tools="[calculator]"), settings)


def test_as_many_definitions_are_cached_as_the_setting_says(settings, agent):
    catalogue.forget()
    two = settings.model_copy(update={"cached_definitions": 2})
    clock, calculator, both = agent(tools="[clock]"), agent(tools="[calculator]"), agent(tools="[clock, calculator]")
    first, second = tools_of(clock, two), tools_of(calculator, two)

    third = tools_of(both, two)

    assert tools_of(calculator, two) is second
    assert tools_of(both, two) is third
    assert tools_of(clock, two) is not first


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tools": "[clock, my_tools:my_clock]"}, r"tools\[1\]: 'my_tools:my_clock' is another tool called 'clock'"),
        ({"tools": "[clock]", "tool_overrides": "{clok: {confirm: true}}"}, "has no tool 'clok'. Did you mean 'clock'"),
        ({"tools": "[clock]", "tool_overrides": "{clock: {effect: checkable}}"}, "has no `check`"),
        ({"tools": "[clock]", "tool_overrides": "{clock: {title: 'At {zome}'}}"}, "clock.title: its title has {zome}"),
        *(
            ({"tools": f"[{name}]", "tool_overrides": f"{{{name}: {{hosts: {hosts}}}}}"}, f"{name}.hosts.*leave it out")
            for name in ("clock", "shell")
            for hosts in ("[]", "[a.example.org]")
        ),
    ],
)
def test_tools_that_do_not_go_together_are_refused(settings, agent, plugin, fields, words):
    with pytest.raises(DefinitionInvalid, match=words):
        tools_of(agent(**fields), settings)
