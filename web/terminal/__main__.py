"""`python -m web.terminal` is what ./callboard becomes."""

import sys

import callboard_folders

try:
    callboard_folders.require()
except callboard_folders.FolderTaken as wrong:
    sys.exit(f"error: {wrong} [room_taken]")
except ImportError as wrong:
    sys.exit(f"error: {wrong}")

from web.terminal.cli import main

main()
