"""Serves functions of a project to Callboard's agents, and to every other client of MCP, from the project's own
interpreter.

    from callboard_client.tools import tool


    @tool(effect="pure", timeout_s=5)
    def count_stock(title: str) -> int:
        '''Say how many copies of a book are in stock.

        Args:
            title: the book's title.
        '''

``python -m callboard_client.tools shop.tools`` serves all such functions of the module ``shop.tools`` on stdin and
stdout. It needs nothing but the standard library.
"""

from callboard_client.tools.effect import Effect as Effect
from callboard_client.tools.marks import ToolUnusable as ToolUnusable
from callboard_client.tools.marks import tool as tool
from callboard_client.tools.running import idempotency_key as idempotency_key
