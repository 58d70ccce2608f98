"""The run's state machine: its states, its reasons, its table of transitions, and every write to the table ``runs``."""
