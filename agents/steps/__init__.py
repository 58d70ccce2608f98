"""The steps of a run: a model call or a tool call each, what reads the model's answer, and what checks it."""
