"""A checkout that is used: one file of each kind that a user writes, packages of theirs, a running `up`.

python -m tests.used_checkout            # the whole of `./callboard test` in it, about as long as `test` itself
python -m tests.used_checkout --only unit -- -k policy
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cli.dev.own_files import copy, own_files, temporary_folder
from config.folders import ROOT
from tests.journeys.up import Up
from tests.test_docs import examples

UNTIDY = "import os\ndef ugly( a,b ):\n  return a\n"
OBSERVER = "from observers.base import AgentObserver\nclass Ledger(AgentObserver):\n    name = 'ledger'\n"
TOOL = "from agents.tools import tool\n@tool(effect='pure')\ndef abacus(a: int) -> int:\n    'Count.'\n    return a\n"
STARTED = "started"
"""The file beside the checkout that exists once something starts the user's MCP server."""
FILES = {
    "callboard.toml": """
        deployment = "mine"
        queue = "mine"
        agents_dir = "/nowhere:config/agents"
        log_format = "json"
        plugins = "my_ledger:Ledger"
        guardrails_file = "config/guardrails.yaml"
        """,
    ".env": "CALLBOARD_SLOTS=3\nOPENAI_API_KEY=sk-mine-0123456789\n",
    "my_ledger.py": OBSERVER,
    "docs/notes.md": "# Notes\n\n[Nowhere](nowhere.md), and CALLBOARD_NOWHERE.\n",
    "tests/test_mine.py": "def test_that_fails():\n    raise AssertionError('a test of the user was run')\n",
    "config/agents/aardvark.yaml": """
        name: Aardvark
        model: auto
        system_prompt: You sort before all others.
        tools: ['mcp:canary', 'celery:shop.tasks.refund', count_words, count_lines, clock]
        """,
    "config/agents/office.yaml": "name: Office\nmodel: mine/unreachable\nsystem_prompt: You were edited.\n",
    "config/celery_tasks/shop.yaml": """
        broker: redis://127.0.0.1:1/0
        result_backend: redis://127.0.0.1:1/1
        tasks:
          shop.tasks.refund: {description: Pay it back., schema: {type: object, properties: {number: {type: string}}}}
        """,
    "config/mcp_servers/canary.yaml": "command: ./canary.py\n",
    "config/mcp_servers/canary.py": f"""\
        #!/usr/bin/env python3
        import pathlib
        pathlib.Path(__file__).resolve().parents[3].joinpath({STARTED!r}).touch()
        """,
    "config/mcp_servers/stripe.yaml": "command: ./canary.py\n",
    "config/guardrails.yaml": "input: {pii: block}\noutput: {secrets: block}\n",
    "config/policy.yaml": """
        rules:
          - name: nothing-is-called
            when: {effects: [pure, idempotent, keyed, checkable, unsafe]}
            verdict: block
            reason: This user's agents call nothing.
        """,
}
"""What the user wrote or edited."""
REMOVED = ("config/agents/atlas.yaml", "config/data/countries.sqlite")
COMMANDS = (("capability", "new", "count_words"), ("capability", "new", "count_lines", "--runner", "function"))
ENVIRONMENT = {
    "CALLBOARD_DEPLOYMENT": "theirs",
    "TEMPORAL_NAMESPACE": "theirs",
    "TEMPORAL_TASK_QUEUE": "theirs",
    "DATABASE_POOL_SIZE": "3",
    "ANTHROPIC_API_KEY": "sk-ant-mine-0123456789",
    "CELERY_WORKER_POOL": "gevent",
}


class UsedCheckout:
    """A copy of this checkout, used as the documents say, by an untidy developer."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "callboard"
        self.root.mkdir()
        self._site = folder / "site"
        copy(own_files(), self.root)
        for words in (("init", "--quiet"), ("add", "--all")):
            subprocess.run(("git", *words), cwd=self.root, check=True)
        self._use()
        _install(self._site)

    @property
    def has_started_a_server(self) -> bool:
        """Whether a process of the user's MCP servers was ever started."""
        return (self.root.parent / STARTED).exists()

    def callboard(self, *words: str, output: int | None = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
        """Run a command of it, with the environment of this Python."""
        return self.python("-P", "-m", "cli", *words, output=output)

    def python(self, *arguments: str, output: int | None = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
        """Run Python in it, as the developer does."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=self._environment(),
            stdout=output,
            stderr=output,
            text=True,
            check=False,
        )

    def test(self, *words: str) -> int:
        """Run `./callboard test` and return its status; its processes are ended where this one is interrupted."""
        command = (sys.executable, "-P", "-m", "cli", "test", *words)
        with subprocess.Popen(command, cwd=self.root, env=self._environment(), start_new_session=True) as process:
            try:
                return process.wait()
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                raise

    @contextmanager
    def up(self) -> Iterator[Up]:
        """Run its `./callboard up`, whose agents reach no MCP server."""
        path, none = self._environment()["PYTHONPATH"], str(self.root / "nowhere")
        own = {"PYTHONPATH": path, "CALLBOARD_NO_CONFIG": "0", "CALLBOARD_MCP_SERVERS_DIR": none}
        with Up(self.root / ".callboard", "--port", "0", "--workers", "1", **own) as running:
            running.wait_for("Callboard is up at")
            yield running

    def _use(self) -> None:
        readme = (ROOT / "README.md").read_text()
        (self.root / "config" / "agents" / "librarian.yaml").write_text(examples(readme, "yaml")[0])
        (self.root / "my_tools.py").write_text(examples(readme, "python")[0] + UNTIDY)
        for words in COMMANDS:
            self.callboard(*words).check_returncode()
        for name in REMOVED:
            (self.root / name).unlink()
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(_dedented(text))
        (self.root / "config" / "mcp_servers" / "canary.py").chmod(0o755)

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": f"{self.root}{os.pathsep}{self._site}"}
        environment.pop("CALLBOARD_NO_CONFIG", None)
        return environment


def _install(site: Path) -> None:
    """Leave what `pip install` leaves: a package with an observer and a tool, and a `config` of another project."""
    facts = site / "ledger-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[callboard.observers]\ninstalled = ledger:Ledger\n[callboard.tools]\nabacus = abacus:abacus\n"
    )
    (site / "ledger.py").write_text(OBSERVER)
    (site / "abacus.py").write_text(TOOL)
    (site / "config").mkdir()
    (site / "config" / "__init__.py").write_text("")


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix(" " * 8) for line in text.split("\n"))


def main() -> int:
    """Run `./callboard test` in a used checkout whose `up` runs; return 1 if a test fails, or starts a server."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with temporary_folder(None) as folder:
        used = UsedCheckout(Path(folder))
        with used.up():
            status = used.test(*sys.argv[1:])
        print("the user's MCP server was started" if used.has_started_a_server else "no MCP server was started")
        return status or int(used.has_started_a_server)


if __name__ == "__main__":
    sys.exit(main())
