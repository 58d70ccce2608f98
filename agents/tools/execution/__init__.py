"""How a call of a tool is made: its time, its threads, and what a failure says of the outcome."""
