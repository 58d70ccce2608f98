"""Observers that tail the log: fed from SQL by a process or a thread of their own, behind a durable cursor."""
