"""Who owns a run: leases with fencing tokens, the heartbeat that keeps them, and the reaper that finds expired ones."""
