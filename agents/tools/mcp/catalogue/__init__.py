"""What servers list: their tools as they are now, and the definitions that persons have accepted."""
