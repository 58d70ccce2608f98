"""How a web process reads requests and sends answers: no client that is slow, or silent, holds a thread."""
