"""What clients send to threads and to open runs: controls, and messages that wait their turn."""
