"""What the web process writes into the audit log by itself: the credential of each entry, and refused requests."""
