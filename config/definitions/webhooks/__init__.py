"""Webhooks: the files of those that others send us, and the signatures of those that are sent and received."""
