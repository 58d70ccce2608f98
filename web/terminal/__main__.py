"""`python -m web.terminal` is what ./callboard becomes."""

from web.terminal.cli import main

main()
