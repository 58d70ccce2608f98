"""The numbered event log of a run: one writer, SQL blocks and pages, and one reader."""
