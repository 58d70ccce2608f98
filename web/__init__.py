"""The doors: HTTP, SSE, WebSocket, MCP, the page and the terminal.

A door checks what comes in, hands it to the rooms below and says what came out; it decides nothing.
No litellm and no user's tool is imported by a web process.
"""
