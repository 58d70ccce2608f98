"""Who asks, in the words that all rooms share: principals and their roles, and for whom a run works."""
