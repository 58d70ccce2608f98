"""Models: opens a stream through LiteLLM, reads it, and defines the only retry policy.

Nothing here depends on runs, events or the code of tools.
"""
