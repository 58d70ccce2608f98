"""What is wrong with a capability before it is called: its file, what it names, its image, its secrets."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

from agents.capabilities.folder import declared
from agents.catalogue import find_tool
from agents.tools.isolation.errors import CONTAINERS_DISABLED, IMAGE_MISSING
from config.definitions.capability import CapabilityDefinition
from config.definitions.errors import SECRET_MISSING, DefinitionInvalid
from config.definitions.runner_spec import ContainerSpec, ProcessSpec
from config.definitions.secrets import resolve_secret
from config.errors import CallboardError
from config.settings import Settings
from config.settings.container_engine import engine_of, engine_variables

INSPECT_S = 10.0
OPEN_NETWORK = (
    '`hosts: ["*"]` lets its container reach what the engine\'s default network reaches, perhaps private addresses and '
    "the cloud's metadata service; limit that network by a firewall, or use a server and `type: http`."
)


def problems_of(capability_id: str, settings: Settings) -> list[str]:
    """Return what keeps this machine from calling a capability, as sentences; nothing where it can be called."""
    definition = declared(settings)[capability_id]
    if isinstance(definition, DefinitionInvalid):
        return [str(definition)]
    if definition.retired is not None:
        return []
    try:
        find_tool(capability_id, settings)
    except CallboardError as error:
        return [str(error)]
    return [*_missing_secrets(definition), *_missing_program(definition), *_missing_image(definition, settings)]


def warnings_of(capability_id: str, settings: Settings) -> list[str]:
    """Return what an operator should know of a capability that can be called, as sentences."""
    definition = declared(settings)[capability_id]
    if isinstance(definition, DefinitionInvalid) or definition.retired is not None:
        return []
    if isinstance(definition.runner, ContainerSpec) and definition.hosts:
        return [OPEN_NETWORK]
    return []


def _missing_secrets(definition: CapabilityDefinition) -> Iterator[str]:
    for name, reference in definition.secrets.items():
        if resolve_secret(reference) is None:
            yield str(SECRET_MISSING(name=name, reference=reference))


def _missing_program(definition: CapabilityDefinition) -> Iterator[str]:
    if isinstance(definition.runner, ProcessSpec):
        program = definition.runner.command[0]
        if not program.startswith("./") and shutil.which(program) is None:
            yield f"there is no program '{program}' on this machine; install it, or write its path."


def _missing_image(definition: CapabilityDefinition, settings: Settings) -> Iterator[str]:
    if not isinstance(definition.runner, ContainerSpec):
        return
    engine = engine_of(settings.containers)
    if engine is None:
        yield str(CONTAINERS_DISABLED())
        return
    asking = [*engine.command, "image", "inspect", "--", definition.runner.image]
    try:
        process = subprocess.run(asking, capture_output=True, timeout=INSPECT_S, check=False, env=engine_variables())
    except (OSError, subprocess.SubprocessError):
        yield f"{engine.command[0]} does not answer on this machine; install it, or correct CALLBOARD_CONTAINERS."
    else:
        if process.returncode != 0:
            yield str(IMAGE_MISSING(image=definition.runner.image))
