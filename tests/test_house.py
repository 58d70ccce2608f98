"""What holds for the whole repository: the rooms say what they are, nothing heavy is imported, files stay short."""

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from cli import COMMANDS, DEVELOPERS, EXAMPLES
from config.folders import FOLDERS, ROOT
from config.settings import Settings
from tests.house_counts import counts

SOURCES = [path for room in FOLDERS for path in sorted((ROOT / room).rglob("*.py")) if "versions" not in path.parts]
"""Every module but the migrations, which are lists by nature."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("room", FOLDERS)
def test_a_room_says_in_one_paragraph_what_lives_there(room):
    docstring = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text()))

    assert docstring, f"{room}/__init__.py has no docstring"
    assert 80 < len(docstring) < 800


def test_litellm_is_imported_where_it_is_used_and_nowhere_else():
    at_the_top = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        if "litellm" in path.read_text()
        for node in executed_at_import(tree_of(path))
        if imports(node, "litellm")
    ]

    assert not at_the_top, "litellm takes seconds to import and reaches for the network; import it in the function"


def executed_at_import(tree: ast.AST):
    """Yield the statements that run when a module is imported: all but bodies of functions and type-only blocks."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from executed_at_import(node)


def imports(node: ast.AST, package: str) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return any(name.partition(".")[0] == package for name in names)


def test_no_files_import_each_other_in_a_circle():
    """Imports for types alone count: two files that need each other's names cannot be read one after the other."""
    modules = {module_of(path): path for path in SOURCES}
    graph = {module: imported_modules(path, modules) - {module} for module, path in modules.items()}

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}; move what they share below them")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported_modules(path: Path, modules: Collection[str]) -> set[str]:
    """Return the modules of the tree that a file imports outside its functions."""
    imports = list(outside_functions(tree_of(path)))
    named = [alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names]
    for node in imports:
        if isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            named += [name if name in modules else str(node.module) for name in whole]
    return {name for name in named if name in modules}


def outside_functions(tree: ast.AST):
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            yield node
            yield from outside_functions(node)


def test_what_a_module_keeps_for_its_threads_is_made_again_in_a_forked_child():
    violations = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        if not {"after_fork", "register_at_fork"} & set(names_in(nodes_of(path)))
        for node in tree_of(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] in OF_THREADS
    ]

    assert not violations, (
        "a thread of the parent may hold it, or be in it: make it again with config/forks.py: after_fork"
    )


OF_THREADS = """
    Lock RLock Condition Event Semaphore BoundedSemaphore Barrier Queue SimpleQueue ThreadPoolExecutor SlotPool local
""".split()


def names_in(nodes: Iterable[ast.AST]):
    return (getattr(node, "id", getattr(node, "attr", "")) for node in nodes)


def test_every_write_to_the_table_of_runs_is_in_the_state_machine():
    writes = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        if path.parent not in (ROOT / "bus/journal/states", ROOT / "bus/journal/unowned")
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and writes_runs(node)
    ]

    assert not writes, "add a transition to bus/journal/states or unowned, and a row to the table of states"


def writes_runs(call: ast.Call) -> bool:
    """Return whether a call is ``update(runs)``, ``runs.update()`` or the like."""
    verbs = {"insert", "update", "delete"}
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in verbs and getattr(call.func.value, "id", "") == "runs" and not call.args
    return getattr(call.func, "id", "") in verbs and "runs" in [getattr(arg, "id", "") for arg in call.args]


def test_statements_are_built_where_the_tables_belong():
    built = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        if not name_of(path).startswith(WITH_STATEMENTS)
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom)
        and (
            (node.module or "").startswith("config.database.tables")
            or (node.module == "sqlalchemy" and BUILDERS & names_of(node))
        )
    ]

    assert not built, f"add a function to one of {', '.join(WITH_STATEMENTS)}"


WITH_STATEMENTS = ("bus/identity/", "bus/journal/", "config/database/", "bus/celery_tasks/results.py")
"""The last one reads a table of the user's Celery application, in another database."""
BUILDERS = {"select", "insert", "update", "delete", "text", "func", "bindparam"}


def names_of(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}


def test_every_setting_is_read():
    code = "\n".join(path.read_text() for path in SOURCES)
    read = {*re.findall(r"\.(\w+)", code), *re.findall(r"""["'{](\w+)\b(?! *:)""", code)}

    assert [name for name in Settings.model_fields if name not in read | NAMED_IN_ENVIRONMENT] == []


NAMED_IN_ENVIRONMENT = {"no_config"}
"""Read before there are settings."""


def test_the_end_of_a_run_is_built_in_one_place():
    built = [
        name_of(path)
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "EndPayload"
    ]

    assert built == ["bus/journal/run_end.py"]


@pytest.mark.parity
def test_no_count_of_the_house_passes_its_bar():
    """``python -m tests.house_counts`` prints them all: circles, contracts, folders, importers, sizes, settings."""
    beyond = {count.name: (count.value, count.bar, count.items) for count in counts() if count.value > count.bar}

    assert beyond == {}, "cut the knot; or move the bar, with the reason in docs/decisions"


@pytest.mark.parity
def test_help_names_every_command_and_imports_none_of_them():
    code = (
        "import sys\nfrom cli.main import status_of\nstatus = status_of(['--help'])\n"
        "heavy = {'pydantic', 'sqlalchemy', 'celery', 'flask', 'redis', 'litellm', 'orjson'} & set(sys.modules)\n"
        "assert not heavy, heavy\nsys.exit(status)"
    )

    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in ran.stdout
        assert line in ran.stdout
    own = ran.stdout.partition("Developing Callboard:")[2]
    assert re.findall(r"^  (\w+) ", own, re.MULTILINE) == list(DEVELOPERS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_has_help(name):
    from click.testing import CliRunner

    from cli.main import cli

    result = CliRunner().invoke(cli, [name, "--help"])

    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: cli {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_ends_with_examples_that_its_options_allow(name):
    from click.testing import CliRunner

    from cli.main import cli

    ending = CliRunner().invoke(cli, [name, "--help"], terminal_width=200).output.partition("Examples:\n")[2]
    lines = [line.strip() for line in ending.splitlines()]

    assert 2 <= len(lines) <= 4 or name in ("completion", "web", "worker", "observe"), lines
    assert all("./callboard" in line for line in lines)
    for line in EXAMPLES[name]:
        words = shlex.split(line.partition("|")[0].partition(">")[0])
        if words[0] in COMMANDS:
            assert _unknown_options(cli, words) == []


def _unknown_options(cli, words):
    """Return the options among the words that the command which they name does not have."""
    command = cli.get_command(None, words[0])
    members = getattr(command, "members", None) or getattr(command, "commands", {})
    command = members.get(words[1], command) if len(words) > 1 else command
    names = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    own = words[: words.index("--")] if "--" in words else words
    return [word for word in own if word.startswith("-") and word not in names]


@pytest.mark.parity
def test_a_worker_holds_no_web_server():
    code = (
        "import sys, bus.celery_app, handlers.run_agent, handlers.worker.process\n"
        "held = {'flask', 'gunicorn', 'werkzeug', 'pytest'} & set(sys.modules)\n"
        "assert not held, held"
    )

    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr


def test_processes_of_tests_get_an_environment_without_the_developers_configuration():
    written_out = [
        name_of(path)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.name not in ("fleet.py", "test_set_up.py", "test_house.py")  # a clone has no configuration yet
        and '"PATH": "' in path.read_text()
    ]

    assert written_out == [], "use tests.fleet.bare_environment, which leaves .env and callboard.toml unread"


def test_tests_reach_the_journal_through_its_interface_or_with_a_reason():
    """``tests/bus`` tests its inside; others have its interface and ``tests/bus/journal_harness.py``."""
    reached = {
        match[1]
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if ROOT / "tests" / "bus" not in path.parents
        for match in re.finditer(r"(?:from|import|setattr\(\") ?(bus\.journal\.[a-z_.]+)", path.read_text())
        if match[1] not in INTERFACE
    }

    assert {module for module in reached if not module.startswith(tuple(INSIDE))} == set()
    assert {module for module in INSIDE if not any(name.startswith(module) for name in reached)} == set()


INTERFACE = [
    f"bus.journal.{name}" for name in "clients owner readers stores tailing approvals errors forks.errors".split()
]
INSIDE = {
    "bus.journal.acceptance": "a start that fails after its rows are written",
    "bus.journal.run_end": "texts that models and people get",
    "bus.journal.idempotency": "a start that loses the race for its key",
    "bus.journal.live.hotlog": "a hot log without a journal",
    "bus.journal.log.group_commit": "a test loses the answer to a commit of a whole run's worker",
    "bus.journal.actors": "faults of the database at one place",
    "bus.journal.log.events": "a log of many runs, without agents that make it",
    "bus.journal.log.line": "lines that no journal writes",
    "bus.journal.live.reader": "how often a reader looks",
    "bus.journal.log.commit": "owners of random workflows that lose their run at a random commit",
    "bus.journal.log.writer": "faults of a commit",
    "bus.journal.ownership": "heartbeats that fail",
    "bus.journal.queries.run_record": "records of all runs of a soak",
    "bus.journal.retention.retention": "which files are private",
    "bus.journal.unowned.runs": "the size of a batch",
    "bus.journal.unowned.transitions": "a run that its worker lost at a random commit",
    "bus.journal.records.steps": "the bench times it alone",
    "bus.journal.version": "a later version of the journal",
    "bus.journal.states.crashes": "limits of crashes",
    "bus.journal.storage.write_probe": "how long a result is kept",
}
"""Modules that tests of other rooms reach into, and what for."""


def test_the_formatter_formats_every_line():
    exempt = [
        f"{name_of(path)}:{number}"
        for path in sorted([*SOURCES, *(ROOT / "tests").rglob("*.py")])
        if "fmt:" in (text := path.read_text())
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(r"#\s*fmt: *(skip|off|on)", line)
    ]

    assert exempt == [], "choose a shape the formatter keeps: a name for a part, a text that is split, a table of rows"


def test_no_test_patches_a_private_name():
    private = re.compile(r"""setattr\([^\n]*?(?:, |\.)["']?(?<=["'.])_(?!_)\w+["']""")
    patched = [
        f"{name_of(path)}: {match[0]}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for match in private.finditer(path.read_text())
        if "_async_transform_recursive" not in match[0]  # the OpenAI SDK's own, which ours replaces
    ]

    assert patched == [], "give the code an argument (clock, fault, timeout) or patch what it imports by a public name"
