"""What a tool may ask its run for: an answer of a person, a text of the model, a task, a line in the log."""
