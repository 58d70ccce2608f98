"""Capabilities: tools with full metadata, declared in YAML and carried out by the runners of agents/tools/runners."""
