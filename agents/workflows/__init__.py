"""Workflows: the walk through a graph of nodes, and blueprints in Python, as the work on a run."""
