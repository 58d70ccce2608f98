"""Texts of people and models as they are stored and shown: on one line, without hidden characters, with suggestions."""
