"""The tool that queries the databases that a deployment names, each by its own means of reading only."""
