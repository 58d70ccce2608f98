"""Read-only queries about runs, and what each open run waits for."""
