"""The shop's orders."""
