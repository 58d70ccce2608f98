"""The terminal's commands, one file each; `cli.py` knows them by name and imports only the one that is run."""
