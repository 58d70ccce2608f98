"""Who may do what, with what callers prove themselves, and the audit log: the tables of identities and their rules."""
