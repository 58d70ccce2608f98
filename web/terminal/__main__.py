"""`python -m web.terminal` is what ./callboard becomes."""

import sys
import warnings

import callboard_folders


def start() -> None:
    """Run the command, or say in a sentence why Callboard's folders cannot be imported."""
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        try:
            callboard_folders.require()
        except callboard_folders.FolderTaken as wrong:
            sys.exit(f"error: {wrong} [room_taken]")
        except ImportError as wrong:
            sys.exit(f"error: {wrong}")
    for warning in noticed:
        print(f"warning: {warning.message}", file=sys.stderr)
    from web.terminal.cli import main

    main()


start()
