"""A provider's stream read into chunks: the wire formats, and LiteLLM's own wrapper where none fits."""
