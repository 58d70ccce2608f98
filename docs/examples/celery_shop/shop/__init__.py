"""The shop: its tasks are what Callboard's agents may do here."""
