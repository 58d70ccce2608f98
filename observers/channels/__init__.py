"""Channels: platforms of messages, on which persons talk with agents. Another platform is another ``Channel``.

A channel is a process of its own and a client of Callboard's HTTP interface (``clients/python``): it imports nothing of
the rooms but ``config``, and acts with the API keys of the persons that write.
"""
