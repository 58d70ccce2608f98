"""What the shop has. An agent uses it as a tool; it imports nothing of Callboard, and nothing of `config`."""

SHELVES = {"Emma": 3, "Dracula": 0, "Walden": 12}


def count_stock(words: str) -> dict[str, int]:
    """Count the copies of a book that the shop has.

    Args:
        words: the book's title, or a sentence with the title in it.
    """
    return {title: copies for title, copies in SHELVES.items() if title.lower() in words.lower()}
