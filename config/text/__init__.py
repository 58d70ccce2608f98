"""Texts of people and models as they are stored and shown, on one line and without hidden characters, and patterns."""
