"""What open runs get of clients: controls, and texts that pass the guardrails of the run's agent."""
