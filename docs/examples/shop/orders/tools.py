"""What agents may do in the shop.

`python -m callboard_client.tools orders.tools` serves it from the shop's own environment, so that it may import all of
the shop, `config` included.
"""

from dataclasses import dataclass
from typing import Literal

from callboard_client.tools import tool
from config.celery_app import app
from orders.stock import SHELVES


@dataclass
class Shelf:
    """A book and its copies."""

    title: str
    copies: int


@tool(effect="pure", timeout_s=5)
def find_books(words: str, order: Literal["title", "copies"] = "title") -> list[Shelf]:
    """Find the books of the shop, with the number of copies that it has.

    Args:
        words: a title, or a sentence with titles in it.
        order: what the list is ordered by.
    """
    shelves = [Shelf(title, copies) for title, copies in SHELVES.items() if title.lower() in words.lower()]
    return sorted(shelves, key=lambda shelf: getattr(shelf, order))


@tool(timeout_s=30)
async def order_copies(title: str, copies: int) -> str:
    """Order copies of a book from its publisher.

    Args:
        title: the book's title, as find_books writes it.
        copies: how many.
    """
    if title not in SHELVES:
        raise ValueError(f"the shop does not sell {title}; look for the title with find_books")
    print(f"ordered {copies} of {title} for the shop {app.main}")  # goes to stderr: stdout is the protocol's
    return f"{copies} copies of {title} are ordered"
