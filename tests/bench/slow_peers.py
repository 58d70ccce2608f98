"""Slow clients for the bench: each holds back a header or a body, or does not read a response or a stream.

``python -m tests.bench.slow_peers PORT COUNT`` prints a line once all have connected, and continues until it is ended.
A client that is closed comes back about ten seconds later.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import sys

POST = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
KINDS: tuple[tuple[bytes, bytes], ...] = (
    (b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"x"),
    (POST + b'Content-Length: 2000\r\n\r\n{"agent"', b" "),
    (b"GET /v1/threads/long/messages?limit=500 HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
    (b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
)
"""What each kind begins with, and what it sends every ``PACE_S`` from then on."""
PACE_S, BACK_S, ARRIVE_S = 1.0, 10.0, 5.0
RECEIVE_BYTES = 4096


async def peer(port: int, number: int, connected: asyncio.Semaphore) -> None:
    """Be one slow client, again and again."""
    begin, more = KINDS[number % len(KINDS)]
    loop = asyncio.get_running_loop()
    is_first = True
    await asyncio.sleep(random.uniform(0, ARRIVE_S))  # no secret
    while True:
        with contextlib.suppress(OSError), socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, begin)
            if is_first:
                connected.release()
                is_first = False
            while not _is_closed(client):
                await asyncio.sleep(PACE_S)
                if more:
                    await loop.sock_sendall(client, more)
        await asyncio.sleep(random.uniform(0.5, 1.5) * BACK_S)  # no secret


def _is_closed(client: socket.socket) -> bool:
    """Return whether the server has closed or refused; what it sent stays unread."""
    try:
        seen = client.recv(32, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    return not seen or seen.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))


async def main(port: int, count: int) -> None:
    connected = asyncio.Semaphore(0)
    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            tasks.create_task(peer(port, number, connected))
        for _ in range(count):
            await connected.acquire()
        print("connected", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
