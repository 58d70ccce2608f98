"""What carries the messages of a session: a process or HTTP, and how much a server may send."""
