"""Checks of what files declare, before a run needs it: an agent with its tools and model, a capability, a policy."""
