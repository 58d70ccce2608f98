"""Commands that develop Callboard, one file each; they need what only a checkout for development has."""
