"""The process of a channel: its table of people, its file, its health, and the platform's connection."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from aiohttp import web

from callboard_client import AsyncCallboard
from config.egress.operators import require_operators_url
from config.egress.policy import allowed_in
from config.errors import BadRequest
from config.settings import settings
from observers.channels.channel import Channel
from observers.channels.conversation import Conversations
from observers.channels.people import TIMEOUTS, People
from observers.channels.posts import Outlets, Tasks
from observers.channels.questions import Questions
from observers.channels.records import Records
from observers.channels.table import ChannelFields, ChannelStart, DiscordFields, EmailFields, SlackFields, secret_of

log = logging.getLogger(__name__)


class Platform(Channel, Protocol):
    """A channel with its connection."""

    conversations: Conversations | None
    questions: Questions | None
    is_connected: bool
    """Whether messages are delivered."""
    problem: str
    """What ``/ready`` says while they are not."""

    async def serve(self) -> None:
        """Serve until it is cancelled; what the platform refuses for good is raised."""

    async def close(self) -> None:
        """End the connection."""

    def routes(self) -> list[web.RouteDef]:
        """Return what the platform asks this process by HTTP, beside its health."""


async def serve_channel(start: ChannelStart, host: str, port: int, say: Callable[[str], object]) -> None:
    """Serve one channel until SIGTERM or SIGINT; what is unfinished then, the next process continues.

    Raises:
        DefinitionInvalid, PRINCIPAL_DIFFERS: the file cannot be used, or a key is another principal's.
        HostNotAllowed: an address leads to a metadata service.
        BadRequest: another process has the port.
        CHANNEL_RUNNING, CHANNEL_REFUSED: another process has the state, or the platform does not let the channel in.
    """
    section, name = start.section, start.name
    people = People.of(start.file, name, section, lambda key: AsyncCallboard(start.server, key, timeouts=TIMEOUTS))
    secrets = {field: secret_of(start.file, f"{name}.{field}", where) for field, where in section.secrets().items()}
    records = Records(start.state / "channels" / f"{name}.db", time.time())
    try:
        for address in (start.server, *section.addresses()):
            await require_operators_url(address, allowed_in(settings().http_allowed_hosts))
        await people.compare_all()
        channel, tasks = _platform(section, secrets, records), Tasks()
        outlets = Outlets(channel, tasks)
        channel.questions = Questions(channel, people, records, outlets)
        channel.conversations = Conversations(
            channel,
            section.agent,
            people=people,
            records=records,
            tasks=tasks,
            outlets=outlets,
            questions=channel.questions,
        )
        runner = await serve_health(channel, host, port)
        say(f"agent '{section.agent}' answers on {name}; http://{host}:{port}/ready says whether it is connected.")
        try:
            await _until_signal(channel)
        finally:
            await tasks.close()
            await channel.close()
            await runner.cleanup()
    finally:
        await people.close()
        records.close()


def _platform(section: ChannelFields, secrets: Mapping[str, str], records: Records) -> Platform:
    """Return the channel of a section; the library of no other platform is imported."""
    if isinstance(section, EmailFields):
        from observers.channels.email_channel import EmailChannel

        return EmailChannel(section, secrets["password"], records)
    if isinstance(section, SlackFields):
        from observers.channels.slack_channel import SlackChannel

        return SlackChannel(section, secrets, records)
    if isinstance(section, DiscordFields):
        from observers.channels.discord_channel import DiscordChannel

        return DiscordChannel(section, secrets["token"])
    raise TypeError(type(section))


async def _until_signal(channel: Platform) -> None:
    """Serve until a signal; what the platform refuses is raised."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    serving, waiting = asyncio.create_task(channel.serve()), asyncio.create_task(over.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if serving.done():
        serving.result()
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def serve_health(channel: Platform, host: str, port: int) -> web.AppRunner:
    """Serve ``/health`` (the process works) and ``/ready`` (messages are delivered), without a credential."""

    async def health(_request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def ready(_request: web.Request) -> web.Response:
        if channel.is_connected:
            return web.json_response({"status": "ready"})
        return web.json_response({"status": "starting", "problem": channel.problem}, status=503)

    application = web.Application()
    application.add_routes([web.get("/health", health), web.get("/ready", ready), *channel.routes()])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise BadRequest(f"cannot serve {host}:{port}: {error.strerror}; choose another --port.") from error
    return runner
