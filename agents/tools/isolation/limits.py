"""How much of the machine one call of a subprocess or a container may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

MIB = 1024 * 1024
_KERNEL = {
    "cpu_s": ("RLIMIT_CPU", 1),
    "memory_mb": ("RLIMIT_AS", MIB),
    "files": ("RLIMIT_NOFILE", 1),
    "file_mb": ("RLIMIT_FSIZE", MIB),
}
"""A limit that the kernel keeps for each process -> its name in the module ``resource``, and its unit there."""


def kernel_limits(limits: Mapping[str, int | None]) -> dict[str, int]:
    """Return the kernel's limits of a process, by their names in the module ``resource``; None is no limit."""
    by_name = {name: limits.get(name) for name in _KERNEL}
    return {_KERNEL[name][0]: most * _KERNEL[name][1] for name, most in by_name.items() if most is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessLimits:
    """The limits of a call; the kernel keeps all but the last two, which the worker keeps."""

    cpu_s: int = 60
    """Seconds of processor time."""
    memory_mb: int = 1024
    """MiB of address space of each process; of a container, of its memory."""
    files: int = 256
    """Open files of each process."""
    processes: int = 64
    """Processes and threads beside those of the worker's user; of a container, all in it."""
    file_mb: int = 64
    """MiB of the longest file that is written."""
    output_kb: int = 256
    """KiB of the standard output; a call that writes more is ended. Of a result 256 KiB are kept."""

    @property
    def by_resource(self) -> dict[str, int]:
        """The kernel's limits of a process, by their names in the module ``resource``."""
        return kernel_limits(asdict(self))
