"""One fixture over each backend; what a test needs is started once a session, and is its own."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from _pytest.unraisableexception import gc_collect_iterations_key

from config.redaction import redactor
from config.settings import SEED_NAMES, Settings
from tests import examples
from tests.backends import PostgresCluster, RedisServer, find_chromium
from tests.identity_provider import environment
from tests.identity_provider.provider import IdentityProvider
from tests.log_capture import attach_quickly
from tests.mcp_suite import page
from tests.routes import share_builders
from tests.slow_disk import SlowDisk
from tests.statements import share_statements
from tests.template import postgres_template, upgrade, use_template
from tests.tiers import UnitGuard, is_left_out, mark_tiers

YOUNG_OBJECTS = 10_000
"""New objects at which the collector looks at them; Python's own 700 is a look every few statements."""
DEVELOPERS = re.compile(r"^(CALLBOARD|CELERY|OLLAMA)_|_API_KEY$|_API_BASE$|_BASE_URL$")
"""Variables a developer may have set for work with Callboard, Celery and models."""


MIGRATING = frozenset({"test_migrate.py", "test_up.py"})
"""Files of tests in which a schema is made and not copied."""


def pytest_addoption(parser: pytest.Parser) -> None:
    examples.add_option(parser)
    page.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Nothing of the developer's own configuration reaches a test or a process it starts."""
    gc.disable()  # until all is collected; looking for garbage meanwhile finds none and takes a fifth of the time
    examples.use_profile(config.getoption("--long"))
    config.pluginmanager.register(UnitGuard())
    # Looking for what tests left takes a second each time; a process that only collects or spreads them left nothing.
    is_spreading = config.option.numprocesses and not hasattr(config, "workerinput")
    runs_tests = not config.option.collectonly and not is_spreading
    config.stash[gc_collect_iterations_key] = 1 if runs_tests else 0
    others = {*SEED_NAMES, "BROKER_URL", "FAILPOINTS", "WEB_CONCURRENCY"}
    for name in [name for name in os.environ if DEVELOPERS.search(name) or name in others]:
        del os.environ[name]
    os.environ["CALLBOARD_NO_CONFIG"] = "1"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background: no child would get Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests are marked with their tiers before ``-m`` selects from them; those that take longest begin first."""
    mark_tiers(items)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose tests are all of another tier is not imported."""
    return is_left_out(collection_path, config.getoption("markexpr")) or None


def pytest_collection_finish(session: pytest.Session) -> None:
    """What tests need is installed; what was collected, which is most of the memory, is never looked at as garbage.

    The installation takes longer than a test may.
    """
    if session.config.option.collectonly:  # what was collected is given up, and nothing of it is kept
        return
    needed = any("identity_provider" in getattr(item, "fixturenames", ()) for item in session.items)
    if needed:
        with suppress(subprocess.CalledProcessError):  # its fixture says why
            environment.ready()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    gc.enable()


def need(tool: str | None, what: str) -> str:
    """Return the tool, or skip the test; in CI a tool that is missing is a failure."""
    if tool is not None:
        return tool
    if os.environ.get("CI"):
        pytest.fail(f"{what} is not on this machine")
    pytest.skip(f"{what} is not on this machine")


GROUPS = ("callboard.observers", "callboard.tools")
INSTALLED = frozenset((entry.name, entry.value) for group in GROUPS for entry in entry_points(group=group))
"""Entry points of the developer's own packages, as they are before the first test."""


@cache
def entries_on(path: tuple[str, ...], group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of what is on the import path; looking reads a file of each of 150 packages."""
    return tuple(entry for entry in entry_points(group=group) if (entry.name, entry.value) not in INSTALLED)


@pytest.fixture(autouse=True)
def nothing_of_other_tests() -> Iterator[None]:
    """A secret that a test registers is unknown to those after it, as how a stream is cut depends on those known.

    Its tools that never end, or that changed, count for none of the calls of other tests.
    """
    abandoned, unaccepted = (
        sys.modules.get("agents.tools.execution.executor"),
        sys.modules.get("agents.tools.mcp.unaccepted_tools"),
    )
    if abandoned is not None:
        abandoned.ABANDONED.forget()
    if unaccepted is not None:
        unaccepted.UNACCEPTED.forget()
    before = set(redactor._registered)
    yield
    if redactor._registered != before:
        redactor._registered.intersection_update(before)
        redactor.forget()


@pytest.fixture(scope="session", autouse=True)
def as_of_no_developer() -> Iterator[None]:
    """Packages that a developer installed for agents of their own offer nothing to a test; those a test makes do.

    A statement is compiled for the first database that runs it, a route for the first app; not for each test's. A
    schema is copied and not made again. Loggers that do not propagate are sought quickly.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("config.settings.project.entry_points", lambda group: entries_on(tuple(sys.path), group))
        attach_quickly(monkeypatch)
        share_statements(monkeypatch)
        share_builders(monkeypatch)
        use_template(monkeypatch)
        yield


@pytest.fixture(scope="module", autouse=True)
def made_anew(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where making the schema is what is tried, it is not copied."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.path.name in MIGRATING:
            monkeypatch.setattr("config.database.migrate.upgrade", upgrade)
        yield


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis of this test process, on a unix socket."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of a real Redis. Tests share it; what is theirs has their deployment's name."""
    return redis_server.url


@pytest.fixture
def deployment() -> str:
    """A name no other test has."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """The URL of this test's own SQLite file; it has no schema yet."""
    return f"sqlite:///{tmp_path / 'callboard.db'}"


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[PostgresCluster]:
    """A Postgres cluster of this test process."""
    from tests.backends import postgres_tool

    need(postgres_tool("initdb"), "Postgres (initdb)")
    with PostgresCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def migrated_postgres(postgres_cluster: PostgresCluster) -> str:
    """The name of a Postgres database with the schema, to make others of."""
    return postgres_template(postgres_cluster)


@pytest.fixture
def postgres_url(postgres_cluster: PostgresCluster, request: pytest.FixtureRequest) -> str:
    """The URL of this test's own Postgres database, which has the schema unless the test is one of migrating."""
    if request.path.name in MIGRATING:
        return postgres_cluster.new_database()
    return postgres_cluster.new_database(template=request.getfixturevalue("migrated_postgres"))


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_kind(request: pytest.FixtureRequest) -> str:
    """Each kind of database in turn: a fixture that asks for it makes its tests run on both."""
    return str(request.param)


@pytest.fixture
def each_database_url(database_kind: str, request: pytest.FixtureRequest) -> str:
    """The URL of this test's own database of each kind, without rows."""
    return str(request.getfixturevalue("database_url" if database_kind == "sqlite" else "postgres_url"))


@pytest.fixture(scope="session")
def usual_settings() -> Settings:
    """Settings of no deployment; reading the environment for each test would take a millisecond."""
    return Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own; a developer's .env is not the tests'
        lease_s=1.0,
        beat_s=0.3,
        reap_s=0.3,
    )


@pytest.fixture
def settings(usual_settings: Settings, tmp_path: Path, database_url: str, deployment: str) -> Settings:
    """Settings of this test's own deployment, without Redis; ``settings.model_copy(update=...)`` for others."""
    own = {"state_dir": tmp_path / "state", "database_url": database_url, "deployment": deployment}
    return usual_settings.model_copy(update=own)


@pytest.fixture
def redis_settings(settings: Settings, redis_url: str) -> Settings:
    """The same with Redis."""
    return settings.model_copy(update={"redis_url": redis_url})


@pytest.fixture
def slow_disk() -> Iterator[SlowDisk]:
    """A disk for processes of this test, as quick as ever until the test says otherwise."""
    need(shutil.which("gcc"), "gcc")
    with tempfile.TemporaryDirectory(prefix="callboard-disk-") as folder:
        yield SlowDisk(Path(folder))


@pytest.fixture(scope="session")
def identity_provider() -> Iterator[IdentityProvider]:
    """An OpenID Connect provider of this test process."""
    try:
        environment.ready()
    except subprocess.CalledProcessError as error:
        need(None, f"the OpenID Connect provider (it cannot be installed: {error.stderr[-300:]})")
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium for playwright."""
    return need(find_chromium(), "chromium-headless-shell or chromium")
