"""What holds for the whole house: the rooms say what they are, nothing heavy is imported, files stay short."""

import ast
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from config.rooms import ROOMS, ROOT
from web.terminal.cli import COMMANDS

SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if "versions" not in path.parts]
"""Every module but the migrations, which are lists by nature."""
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_in_one_paragraph_what_lives_there(room):
    docstring = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text()))

    assert docstring, f"{room}/__init__.py has no docstring"
    assert 80 < len(docstring) < 800


def test_litellm_is_imported_where_it_is_used_and_nowhere_else():
    at_the_top = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        for node in executed_at_import(ast.parse(path.read_text()))
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


def test_what_a_module_keeps_for_its_threads_is_made_again_in_a_forked_child():
    kept = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        if not {"after_fork", "register_at_fork"} & set(names_in(ast.parse(path.read_text())))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] in OF_THREADS
    ]

    assert not kept, "a thread of the parent may hold it, or be in it: make it again with config/forks.py: after_fork"


OF_THREADS = (
    "Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier", "Queue", "SimpleQueue",
    "ThreadPoolExecutor", "Desk", "local",
)  # fmt: skip


def names_in(tree: ast.AST):
    return (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(tree))


def test_long_files_and_functions_are_pointed_out():
    long = [f"{name_of(path)}: {lines} lines" for path in SOURCES if (lines := count_lines(path)) > MAX_FILE_LINES]
    long += [
        f"{name_of(path)}:{node.lineno} {node.name}: {length_of(node)} lines"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length_of(node) > MAX_FUNCTION_LINES
    ]

    for place in long:
        warnings.warn(f"long code: {place}", stacklevel=1)


def length_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def count_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_help_names_every_command_and_imports_none_of_them():
    code = (
        "import sys\nfrom web.terminal.cli import status_of\nstatus = status_of(['--help'])\n"
        "heavy = {'pydantic', 'sqlalchemy', 'celery', 'flask', 'redis', 'litellm', 'orjson'} & set(sys.modules)\n"
        "assert not heavy, heavy\nsys.exit(status)"
    )

    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in ran.stdout
        assert line in ran.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_has_help(name):
    from click.testing import CliRunner

    from web.terminal.cli import cli

    result = CliRunner().invoke(cli, [name, "--help"])

    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: cli {name}")


def test_a_worker_holds_no_web_server():
    code = (
        "import sys, bus.celery_app, handlers.run_agent, handlers.worker_process\n"
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
