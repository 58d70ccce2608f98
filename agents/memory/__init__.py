"""What an agent knows of a long thread: summaries in place of old messages."""
