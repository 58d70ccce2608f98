"""An MCP server on stdio with the official SDK: two tools, of which one changes something."""

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

STOCK = {"A-1001": 12, "A-1002": 0}
server = MCPServer("stock")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def stock_of(article: str) -> int:
    """Return how many pieces of an article there are."""
    return STOCK.get(article, 0)


@server.tool()
def reserve(article: str, pieces: int) -> int:
    """Reserve pieces of an article, and return how many are left."""
    left = STOCK.get(article, 0) - pieces
    if left < 0:
        raise ValueError(f"there are only {STOCK.get(article, 0)} pieces of {article}")
    STOCK[article] = left
    return left


if __name__ == "__main__":
    server.run("stdio")
