"""What every node is made of: its execution, its scope, the base of handlers, and calls of tools and models."""
