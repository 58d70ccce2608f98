"""Guardrails: what is checked and redacted in the input and output of models and tools."""
