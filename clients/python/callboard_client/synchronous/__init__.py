"""The client for plain code. All but ``pauses.py`` is generated: see clients/python/generate.py."""
