"""What the shop paid back: a line in a file for each refund, instead of a payment provider."""

import os
from pathlib import Path


def write(line: str) -> None:
    """Add a line."""
    with Path(os.environ["SHOP_LEDGER"]).open("a") as file:
        file.write(f"{line}\n")
