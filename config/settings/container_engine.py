"""The container engine of a worker: podman's or docker's command line, with the options that the operator gives it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

_PROGRAM = re.compile(r"(?:/[\w./-]+/)?(podman|docker)")
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-{1,10})[a-z0-9]+){0,20}"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"
_IMAGE = re.compile(
    rf"{_HOST}{_PART}(?:/{_PART}){{0,10}}(?::[\w][\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII
)
MAX_IMAGE = 300
"""Characters of the longest image name."""
_OWN = ("HOME", "PATH", "USER", "TMPDIR")
_OWN_BEGINNINGS = ("XDG_", "DOCKER_", "CONTAINER_", "CONTAINERS_", "DBUS_")
"""Variables of the worker by which the engine finds its storage, its configuration and its server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """How containers are started on this machine."""

    command: tuple[str, ...]
    """The program, and options that stand before the subcommand."""

    @property
    def is_podman(self) -> bool:
        return self.command[0].endswith("podman")

    def removing(self, *names: str) -> list[str]:
        """Return the command that kills and removes containers."""
        at_once = ["--time", "0", "--ignore"] if self.is_podman else []
        return [*self.command, "rm", "--force", *at_once, "--", *names]


def engine_of(text: str) -> Engine | None:
    """Return the engine that a setting names, ``podman --runtime runc`` for example; None where it is empty.

    Raises:
        ValueError: the setting does not begin with podman or docker.
    """
    words = shlex.split(text)
    if not words:
        return None
    if not _PROGRAM.fullmatch(words[0]):
        raise ValueError("has to begin with podman or docker, or the absolute path of one of them")
    return Engine(command=tuple(words))


def is_image(name: str) -> bool:
    """Return whether a name is one that image references may have; it cannot be taken for an option."""
    return len(name) <= MAX_IMAGE and _IMAGE.fullmatch(name) is not None


def engine_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return those of the worker's variables that the engine's command line needs."""
    return {name: value for name, value in environment.items() if is_engines_own(name)}


def is_engines_own(name: str) -> bool:
    """Return whether a variable would change the engine itself, so that no capability may set it."""
    return name in _OWN or name.startswith(_OWN_BEGINNINGS)
