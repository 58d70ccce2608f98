"""A call of a tool, with what the server asks meanwhile, and the answer as a result."""
