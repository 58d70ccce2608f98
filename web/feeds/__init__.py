"""The viewers of a process and the feeds they follow: a run, the board, a run in another dialect. Used on the loop."""
