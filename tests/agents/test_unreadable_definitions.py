"""An error of reading says nothing about what a file says: it is 503, and the next call reads the file again."""

from __future__ import annotations

import errno
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents import execution
from agents.capabilities import folder as capabilities
from agents.catalogue import find_tool
from agents.compatibility import unusable
from agents.errors import AgentUnknown
from agents.governance.guardrails.guardrails import guardrails_of
from agents.governance.policy.policy_yaml import PolicySource
from agents.registry import AgentRegistry
from agents.testing import AgentKit
from agents.tools.mcp.server_states import ServerFiles
from bus.celery_tasks.application import find_application
from bus.identity.credentials.certificates import CertificatePrincipals
from bus.journal.errors import CodeVersion
from bus.journal.owner import Progress
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionUnreadable
from config.errors import CallboardError, SettingInvalid
from config.identity.principal import Principal
from config.settings import Settings
from tests.agents.test_celery_calls import until
from tests.processes import no_free_file

AGENT = "name: A\nmodel: demo/assistant\nsystem_prompt: x\n"
CAPABILITY = (
    "name: Count\ndescription: Counts.\nversion: 1.0.0\nmaintainer: a\nkind: transformer\neffect: pure\n"
    "input_schema: {type: object}\nrunner: {type: process, command: ['true']}\n"
)
STRANGER = Principal(id="p", tenant="acme")


@contextmanager
def failing_disk() -> Iterator[None]:
    """Files can be listed, and none can be read."""

    def fail(path: Path, *_: object, **__: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "read_bytes", fail)
        patched.setattr(Path, "read_text", fail)
        yield


def written(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


def agent(folder: Path) -> Callable[[], object]:
    registry = AgentRegistry([written(folder, "a.yaml", AGENT)])
    return lambda: registry.get("a").name


def agents_list(folder: Path) -> Callable[[], object]:
    registry = AgentRegistry([written(folder, "a.yaml", AGENT)])

    def read() -> object:
        (entry,) = registry.all()
        if not isinstance(entry, AgentDefinition):
            raise entry
        return entry.name

    return read


def capability(folder: Path) -> Callable[[], object]:
    capabilities.forget()
    settings = Settings(capabilities_dir=str(written(folder, "count.yaml", CAPABILITY)))

    def read() -> object:
        tool = capabilities.get_capability("count", settings)
        assert tool is not None
        return tool.name

    return read


def celery_application(folder: Path) -> Callable[[], object]:
    settings = Settings(celery_tasks_dir=str(written(folder, "shop.yaml", "broker: redis://localhost/1\n")))
    return lambda: find_application("shop", settings).id


def deployment_guardrails(folder: Path) -> Callable[[], object]:
    path = written(folder, "guardrails.yaml", "input: {max_chars: 7}\n") / "guardrails.yaml"
    return lambda: guardrails_of(Settings(guardrails_file=str(path))).input is not None


def capability_tool(folder: Path) -> Callable[[], object]:
    capabilities.forget()
    settings = Settings(capabilities_dir=str(written(folder, "count.yaml", CAPABILITY)))
    return lambda: find_tool("count", settings).name


def celery_task(folder: Path) -> Callable[[], object]:
    tasks = "tasks: {shop.refund: {schema: {type: object}, description: Pays.}}\n"
    settings = Settings(celery_tasks_dir=str(written(folder, "shop.yaml", f"broker: redis://localhost/1\n{tasks}")))
    return lambda: find_tool("celery:shop.refund", settings).name


def tool(folder: Path) -> Callable[[], object]:
    return module_tool(folder, 'Path(__file__).read_text()\ndef count(number: int) -> int:\n    "Count."\n')


def wrapping_tool(folder: Path) -> Callable[[], object]:
    loading = (
        "try:\n    Path(__file__).read_text()\nexcept OSError as error:\n    raise RuntimeError('no data') from error\n"
    )
    return module_tool(folder, f'{loading}def count(number: int) -> int:\n    "Count."\n')


def plugin(folder: Path) -> Callable[[], object]:
    module = f"unreadable_{uuid.uuid4().hex}"
    written(
        folder, f"{module}.py", 'from pathlib import Path\nPath(__file__).read_text()\ndef count(number: int): "Count."'
    )
    sys.path.append(str(folder))
    settings = Settings(plugins=f"{module}:count", tool_modules=module)
    return lambda: find_tool("count", settings).name


def module_tool(folder: Path, text: str) -> Callable[[], object]:
    module = f"unreadable_{uuid.uuid4().hex}"
    written(folder, f"{module}.py", f"from pathlib import Path\n{text}    return number\n")
    sys.path.append(str(folder))
    settings = Settings(tool_modules=module)
    return lambda: find_tool(f"{module}:count", settings).name


@pytest.fixture(autouse=True)
def same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of a test are found in it alone."""
    monkeypatch.setattr(sys, "path", list(sys.path))


KINDS = [
    agent,
    agents_list,
    capability,
    capability_tool,
    celery_application,
    celery_task,
    deployment_guardrails,
    plugin,
    tool,
    wrapping_tool,
]


@pytest.mark.parametrize("fault", [no_free_file, failing_disk])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_cannot_be_read_now_is_read_by_the_next_call(
    tmp_path: Path, kind: Callable[[Path], Callable[[], object]], fault: Callable[[], Iterator[None]]
) -> None:
    read = kind(tmp_path / "definitions")

    for _ in range(2):
        with pytest.raises(DefinitionUnreadable) as raised, fault():  # type: ignore[attr-defined]  # a context manager
            read()
        assert (raised.value.status, raised.value.retryable) == (503, True)
        assert str(tmp_path) not in raised.value.public

    assert read()


def test_an_mcp_servers_file_is_read_again(tmp_path: Path) -> None:
    files = ServerFiles([written(tmp_path / "servers", "shop.yaml", "command: x\n")])
    with failing_disk():
        servers, broken = files.read()
    assert (servers, "cannot be read now" in broken["shop"]) == ({}, True)

    assert list(files.read()[0]) == ["shop"]


def test_a_folder_that_cannot_be_listed_is_no_empty_one(tmp_path: Path) -> None:
    registry = AgentRegistry([written(tmp_path / "agents", "a.yaml", AGENT), tmp_path / "absent"])

    with pytest.raises(DefinitionUnreadable), no_free_file():
        registry.ids()

    assert registry.ids() == ["a"]


def test_an_edited_policy_counts_once_it_can_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("rules: []")
    source = PolicySource([path])
    before = source.current()
    path.write_text("rules: [{name: one, verdict: block, reason: 'No.'}]")

    with failing_disk():
        assert source.current() is source.current() is before

    assert source.current().version != before.version
    assert len(caplog.records) == 1


def test_edited_rules_for_certificates_count_once_they_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "principals.yaml"
    path.write_text("- {certificate: CN=billing, principal: billing}\n")
    principals = CertificatePrincipals(path)
    certificate = {"subject": ((("commonName", "billing"),),)}
    path.write_text("- {certificate: CN=billing, principal: other}\n")

    with failing_disk():
        former = principals.principal_of(certificate)
    latter = principals.principal_of(certificate)

    assert former is not None
    assert latter is not None
    assert (former.principal.id, latter.principal.id) == ("billing", "other")


def test_a_foreign_agent_stays_unknown_while_its_file_cannot_be_read(tmp_path: Path) -> None:
    registry = AgentRegistry([written(tmp_path / "agents", "a.yaml", AGENT + "access: {tenants: [other]}\n")])
    assert registry.get("a").name == "A"
    written(tmp_path / "agents", "a.yaml", AGENT + "access: {tenants: [other, another]}\n")

    with pytest.raises(AgentUnknown), failing_disk():
        registry.get_for(STRANGER, "a")


def test_a_run_waits_for_a_worker_that_can_read_what_it_needs(tmp_path: Path) -> None:
    unreadable = DefinitionUnreadable.of(tmp_path, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))

    error = unusable(unreadable, Progress())

    assert isinstance(error, CodeVersion)
    assert "cannot read what the run needs" in str(error)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SettingInvalid("guardrails.yaml is broken; mend it."), "failed"),
        (DefinitionUnreadable.of(Path("guardrails.yaml"), PermissionError(13, "Permission denied")), "waiting"),
    ],
    ids=["broken", "unreadable"],
)
def test_guardrails_that_change_between_load_and_claim_end_or_park_the_run(
    monkeypatch: pytest.MonkeyPatch, error: CallboardError, status: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    with AgentKit() as kit:
        monkeypatch.setattr(execution, "guardrails_of", fail)
        handle = kit.run("Hello")

        until(lambda: handle.status() == status)
        handle.cancel()
