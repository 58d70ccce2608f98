"""Delegation: agents as tools of others, whose calls are child runs, and routers that choose among them."""
