"""Models: opening a stream through LiteLLM, reading it, and the one layer that tries again.

One file a wire format. Nothing here knows of runs, events or tools' code.
"""
