"""The HTTP calls, a file for each kind of thing; every file has one blueprint."""
