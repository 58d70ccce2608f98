"""What viewers watch: a run, the board, or a run in another dialect. Everything here happens on the loop."""
