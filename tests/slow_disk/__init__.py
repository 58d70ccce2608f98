"""A slow or full disk, for as long as a test says: processes started with its environment wait longer in each fsync,
or cannot let their database grow."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "disk.c"


class SlowDisk:
    """The disk of every process that has ``environment``, its children included. Linux only."""

    def __init__(self, folder: Path) -> None:
        """Compile the library into ``folder`` with gcc; the disk is as quick as before until ``delay``.

        A server that runs as another user has to be able to enter the folders above.
        """
        folder.chmod(0o755)
        library = folder / "slow_disk.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
        self._file = folder / "slow_disk.ms"
        self.delay(0)
        self.environment = {"LD_PRELOAD": str(library), "SLOW_DISK_FILE": str(self._file)}
        """What a process is started with to have this disk."""

    def delay(self, ms: int) -> None:
        """Let each fsync from now on take so many ms longer; 0 is the disk as it is."""
        self._set(str(ms))

    def fill(self) -> None:
        """Refuse every write by which a file of the database grows, until ``delay``."""
        self._set("full")

    def _set(self, state: str) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(state)
        os.replace(new, self._file)
