"""The doctor's checks of what only the terminal's own process can examine; ``web/doctor`` has those of servers."""
