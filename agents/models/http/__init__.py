"""Limits on providers' HTTP responses."""
