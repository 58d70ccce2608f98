"""The bodies of answers, one file a noun. A field that may be absent is ``Maybe``; there are no nulls."""
