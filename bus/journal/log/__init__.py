"""The numbered event log of a run: one writer, and the SQL of its events, commits, blocks and pages."""
