"""Who asks, and what they may do: principals, the decision, and their credentials."""
