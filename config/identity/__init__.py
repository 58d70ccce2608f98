"""Who asks, in the words that all folders share: principals and their roles, and for whom a run works."""
