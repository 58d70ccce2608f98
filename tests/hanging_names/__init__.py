"""A name server that does not answer: names that begin with "hangs" are looked up for a minute, in vain."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "getaddrinfo.c"
LOOKED_UP_S = 60


def hanging_names(folder: Path) -> dict[str, str]:
    """Return what a process is started with to have such a name server; compiled into ``folder``. Linux only."""
    library = folder / "hanging_names.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}
