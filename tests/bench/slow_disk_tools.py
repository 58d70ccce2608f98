"""The unsafe tool of the slow disk's load: each call adds one line to a ledger outside the deployment."""

from __future__ import annotations

import os
import time

from agents.tools import current_call, tool

LEDGER = "SLOW_DISK_LEDGER"
"""Environment variable with the ledger's path."""
PAY_S = "SLOW_DISK_PAY_S"
"""Environment variable with the seconds that a call takes after that; none by default."""


@tool(effect="unsafe")
def pay() -> str:
    """Pay, each time it is called."""
    call = current_call()
    file = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{call.run_id} {call.idempotency_key}\n".encode())
    finally:
        os.close(file)
    time.sleep(float(os.environ.get(PAY_S, "0")))  # the other side takes its time
    return "paid"
