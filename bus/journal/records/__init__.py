"""What a run leaves beside its events: steps, the call it is for, waits for tasks, messages and originals."""
