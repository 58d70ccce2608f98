"""The models that several calls or the contracts share; a field that may be absent is ``Maybe``, and never null."""
