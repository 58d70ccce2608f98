"""The HTTP calls: one file and one blueprint per resource."""
