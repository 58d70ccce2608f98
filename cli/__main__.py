"""The program behind ./callboard (`python -m cli`)."""

import atexit
import gc
import os
import runpy
import sys
import warnings
from pathlib import Path

from cli.interrupts import end_at_once

FOLDERS = Path(__file__).parents[1] / "config" / "folders.py"
"""Run by its path, because `import config` may find another project's package."""


class QuickEnd:
    """Ends the process as the last exit handler, once there is a status; so it has to be the first to be registered.

    Python's teardown of the heap takes 0.07 s of CPU after most commands, 0.3 s with LiteLLM loaded. The operating
    system frees the memory at once.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        atexit.register(self._end)

    def _end(self) -> None:
        if self.status is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            return  # Python's own end says what was not written, and has a status for it
        os._exit(self.status)


def start() -> None:
    """Run the command; if Callboard's folders cannot be imported, print the reason and exit."""
    gc.set_threshold(50_000, 20, 100)  # what an import makes stays: collecting during imports takes 0.1 s of a start
    end_at_once()
    ending = QuickEnd()
    check = runpy.run_path(str(FOLDERS), run_name="config.folders")
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        try:
            check["require"]()
        except check["FolderTaken"] as error:
            sys.exit(f"error: {error} [room_taken]")
        except ImportError as error:
            sys.exit(f"error: {error}")
    for warning in noticed:
        print(f"warning: {warning.message}", file=sys.stderr)
    from cli.main import main

    try:
        main()
    except SystemExit as ended:
        ending.status = ended.code if isinstance(ended.code, int) else None
        raise


start()
