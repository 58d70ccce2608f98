"""What a model gets of a conversation: its newest part that fits, as messages of a call."""
