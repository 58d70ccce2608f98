"""Redis: its socket, the forms of its URL, and the requirements for a server."""
