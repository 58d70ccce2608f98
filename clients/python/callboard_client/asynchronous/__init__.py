"""The client for event loops. ``callboard_client.synchronous`` is generated from it: see clients/python/generate.py."""
