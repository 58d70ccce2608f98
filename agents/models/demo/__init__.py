"""The demo model: a small program that streams, thinks, calls the offered tools and fills schemas, without a key.

Its answers are deterministic. It learns nothing and knows no language.
"""
