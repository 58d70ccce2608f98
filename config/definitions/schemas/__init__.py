"""JSON Schemas of tools and agents: which are refused, and what they are shown and checked with."""
