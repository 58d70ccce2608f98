"""The unsafe tool of the slow disk's load: each call adds one line to a ledger outside the deployment."""

from __future__ import annotations

import os

from agents.tools import current_call, tool

LEDGER = "SLOW_DISK_LEDGER"
"""Environment variable with the ledger's path."""


@tool(effect="unsafe")
def pay() -> str:
    """Pay, each time it is called."""
    call = current_call()
    file = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{call.run_id} {call.idempotency_key}\n".encode())
    finally:
        os.close(file)
    return "paid"
