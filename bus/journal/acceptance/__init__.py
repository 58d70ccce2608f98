"""How a run begins: its row, its definition and its wake-up in one commit, the journal's own or the caller's."""
