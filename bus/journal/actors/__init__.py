"""The journal by actor: what clients, a run's owner and readers do with it, and what it stores for other folders."""
