"""`python -m web.terminal` is what ./callboard becomes."""

import runpy
import sys
import warnings
from pathlib import Path

FOLDERS = Path(__file__).parents[2] / "config" / "folders.py"
"""Run by its path: another project's `config` may stand in for ours."""


def start() -> None:
    """Run the command, or say in a sentence why Callboard's folders cannot be imported."""
    check = runpy.run_path(str(FOLDERS), run_name="config.folders")
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        try:
            check["require"]()
        except check["FolderTaken"] as wrong:
            sys.exit(f"error: {wrong} [room_taken]")
        except ImportError as wrong:
            sys.exit(f"error: {wrong}")
    for warning in noticed:
        print(f"warning: {warning.message}", file=sys.stderr)
    from web.terminal.cli import main

    main()


start()
