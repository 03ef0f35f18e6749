"""A small MCP server for `shop.yaml`, behind HTTP: `python shop_server.py PORT`; or, without a port, one that is started for each episode."""

import importlib
import sys
from typing import Any

mcpserver: Any = importlib.import_module("mcp.server.mcpserver")

PRICES = {"tea": 3, "coffee": 4, "water": 1}
server: Any = mcpserver.MCPServer("shop", instructions="Prices are in euros.")
basket: list[str] = []


@server.tool()
def price(article: str) -> int:
    """The price of an article."""
    if article not in PRICES:
        raise mcpserver.exceptions.ToolError(f"{article} is not sold here")
    return PRICES[article]


@server.tool()
def put(article: str) -> str:
    """Put an article into the basket."""
    basket.append(article)
    return f"in the basket: {', '.join(basket)}"


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
