"""Outgoing requests to addresses that a model or a peer chose: which are allowed, and how they are made.

``parse_target`` reads a URL, ``EgressPolicy`` decides about it and about the addresses of its host, and
``config.egress.fetch`` connects to the address that was decided about.
"""
