"""The calls of the designs that came before this one, kept for their clients."""
