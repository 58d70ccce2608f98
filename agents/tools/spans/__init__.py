"""Spans: the HTTP requests, SQL statements and file operations of one tool call, collected while it is under way."""
