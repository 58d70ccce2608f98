"""How much of the machine one call of a subprocess or a container may use."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


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
        return {
            "RLIMIT_CPU": self.cpu_s,
            "RLIMIT_AS": self.memory_mb * MIB,
            "RLIMIT_NOFILE": self.files,
            "RLIMIT_FSIZE": self.file_mb * MIB,
        }
