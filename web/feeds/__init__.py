"""The viewers of a process and the feeds that they follow: a run, the board. Used on the loop."""
