"""The runner of containers: an image, its arguments, JSON on the standard input, JSON on the standard output.

``container_argv`` is the whole isolation as one list of words, without side effects. A container gets no folder, no
socket and no device of the machine, no capability of the kernel, and no network unless the capability's ``hosts`` are
``*``: the engines cannot limit a container to some hosts.
"""

from __future__ import annotations

import hashlib
import logging
import secrets as random_source
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from agents.tools.call_context import ToolContext, current_call
from agents.tools.isolation.call_folder import LOST_S, is_lost, lost_at_s
from agents.tools.isolation.child import Command, Finished, run_command
from agents.tools.isolation.errors import CONTAINERS_DISABLED, IMAGE_MISSING, CapabilityFailed
from agents.tools.isolation.guarded import ProcessLimits
from agents.tools.runners.calling import BEYOND_S, call_variables, result_of, secret_values
from config.settings.container_engine import Engine, engine_variables

log = logging.getLogger(__name__)

PREFIX = "callboard-"
"""How the name of a container begins; behind it is the time (s since 1970, UTC) after which it counts as lost."""
ENGINE_FAILED = 125
"""Exit status of an engine that could not start the container."""
INSPECT_S = 10.0
ASK_S = 30.0
"""Seconds that the engine may take for an answer about lost containers."""
NOWHERE = Path("/")
"""The working folder of the engine's command: no tool writes there, and a container gets none of the machine's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """What is started, and how it is isolated."""

    image: str
    command: Sequence[str] = ()
    """The image's own where it is empty."""
    user: str = "65534:65534"
    """Numbers of user and group."""
    environment: Mapping[str, str] = field(default_factory=dict)
    has_network: bool = False
    limits: ProcessLimits = field(default_factory=ProcessLimits)


def container_argv(
    engine: Engine, container: Container, name: str, variables: Sequence[str], wall_s: float
) -> list[str]:
    """Return the command that starts a container called ``name`` and removes it at its end.

    The values of ``variables`` are taken from the environment of the command, so that no process list shows them.
    """
    limits = container.limits
    words = [*engine.command, "run", "--rm", "--interactive", "--name", name, "--pull", "never", "--log-driver", "none"]
    words += ["--network", "none"] if not container.has_network else []
    words += ["--read-only", "--tmpfs", f"/tmp:rw,noexec,nosuid,nodev,mode=1777,size={limits.file_mb}m"]
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", container.user]
    words += ["--memory", f"{limits.memory_mb}m", "--memory-swap", f"{limits.memory_mb}m"]
    words += ["--pids-limit", str(limits.processes), "--ulimit", f"cpu={limits.cpu_s}:{limits.cpu_s}"]
    words += [
        "--ulimit",
        "core=0:0",
        "--ulimit",
        "nproc=1024:1024",
        "--ulimit",
        f"nofile={limits.files}:{limits.files}",
    ]
    if engine.is_podman:
        words += ["--read-only-tmpfs=false", "--http-proxy=false", "--timeout", str(int(wall_s) + LOST_S)]
    for variable, value in container.environment.items():
        words += ["--env", f"{variable}={value}"]
    for variable in variables:
        words += ["--env", variable]
    return [*words, "--", container.image, *container.command]


def container_name(key: str, wall_s: float) -> str:
    """Return the name of a call's container, by which it is found and removed if its worker is lost."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return f"{PREFIX}{lost_at_s(wall_s)}-{digest}-{random_source.token_hex(4)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerRunner:
    """Starts a container for each call and removes it afterwards, whatever became of it."""

    engine: Engine | None
    """None where containers are off."""
    container: Container
    secrets: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    async def call(self, **arguments: Any) -> Any:
        """Return the JSON value that the container writes.

        Raises:
            CONTAINERS_DISABLED, IMAGE_MISSING: the call was not made.
            CapabilityFailed, ToolCutOff, OUTPUT_TOO_LONG, OUTPUT_NOT_JSON, SECRET_MISSING: see ``result_of``.
        """
        done = await self.run(self.container, orjson.dumps(dict(arguments)))
        return result_of(done, self.container.limits.output_kb * 1024)

    async def run(self, container: Container, stdin: bytes) -> Finished:
        """Start a container and return what it left.

        Raises:
            CONTAINERS_DISABLED, IMAGE_MISSING, CapabilityFailed, SECRET_MISSING: it was not started.
        """
        if self.engine is None:
            raise CONTAINERS_DISABLED()
        done = await run_command(self._command(self.engine, container, stdin, current_call()))
        if done.code == ENGINE_FAILED:
            await _require_image(self.engine, container.image)
            raise CapabilityFailed(f"its container could not be started: {done.errors.strip()[-500:]}")
        return done

    def _command(self, engine: Engine, container: Container, stdin: bytes, call: ToolContext) -> Command:
        variables = call_variables(call, self.config) | secret_values(self.secrets)
        wall_s = call.timeout_s + BEYOND_S
        name = container_name(call.idempotency_key, wall_s)
        return _engine_command(
            container_argv(engine, container, name, tuple(variables), wall_s),
            wall_s,
            environment=engine_variables() | variables,
            stdin=stdin,
            max_output=container.limits.output_kb * 1024,
            cleanup=engine.removing(name),
        )


async def _require_image(engine: Engine, image: str) -> None:
    """Return if the machine has the image.

    Raises:
        IMAGE_MISSING: it has not.
    """
    done = await run_command(_engine_command([*engine.command, "image", "inspect", "--", image], INSPECT_S))
    if done.code != 0 and not done.is_cut:
        raise IMAGE_MISSING(image=image)


def _engine_command(argv: Sequence[str], wall_s: float, **fields: Any) -> Command:
    usual: dict[str, Any] = {"environment": engine_variables(), "stdin": b"", "max_output": 64 * 1024, "limits": {}}
    return Command(argv=argv, folder=NOWHERE, wall_s=wall_s, **(usual | fields))


# --- what lost workers left -----------------------------------------------------------------------------


def remove_lost_containers(engine: Engine, now_s: float | None = None) -> list[str]:
    """Remove the lost containers of this machine, and return their names; an engine that fails is logged.

    Takes as long as the engine; a container that another worker removes meanwhile is no error.
    """
    now_s = time.time() if now_s is None else now_s
    try:
        lost = [
            name for name in _names(engine) if name.startswith(PREFIX) and is_lost(name.removeprefix(PREFIX), now_s)
        ]
        if lost:
            _ask(engine.removing(*lost))
            log.warning("removed %d containers that lost workers left", len(lost))
        return lost
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("containers that lost workers left could not be looked for: %s", type(error).__name__)
        return []


def _names(engine: Engine) -> list[str]:
    listing = [*engine.command, "ps", "--all", "--filter", f"name={PREFIX}", "--format", "{{.Names}}"]
    return _ask(listing).split()


def _ask(command: list[str]) -> str:
    environment = engine_variables()
    done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=False, env=environment)
    return done.stdout
