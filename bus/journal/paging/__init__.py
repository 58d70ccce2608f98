"""What lists and logs are read by: whose rows, in which order, and how many at a time."""
