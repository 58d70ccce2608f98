"""Capabilities: tools with full metadata, declared in YAML, and the runners that carry out their calls."""
