"""The audit log: who did what, append-only, chained by digests per tenant, with its head written outside the database.

``recording.record`` adds an entry in the transaction that makes the change; ``chain.verify`` recomputes the digests;
``anchors`` has the heads for log files and observers, and reads them back. docs/audit.md describes what is recorded.
"""
