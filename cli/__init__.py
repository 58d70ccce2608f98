"""The terminal: ``commands/`` has one file per command, ``dev/`` those that develop Callboard.

The other folders and files hold what commands share.

``main.py`` maps names to commands and imports only the one that runs, so ``--help`` is quick. No other folder imports
this one.
"""
