"""The process of a channel: its table of people, its file, its health, and the platform's connection."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from callboard_client import AsyncCallboard
from config.definitions.errors import DefinitionInvalid
from config.egress.operators import require_operators_url
from config.egress.policy import allowed_in
from config.errors import BadRequest
from config.settings import settings
from observers.channels.conversation import Conversations
from observers.channels.discord_channel import DiscordChannel
from observers.channels.people import TIMEOUTS, People
from observers.channels.posts import Outlets, Tasks
from observers.channels.questions import Questions
from observers.channels.records import Records
from observers.channels.table import ChannelsFields, DiscordFields, secret_of

log = logging.getLogger(__name__)


async def serve_discord(file: Path, fields: ChannelsFields, state: Path, host: str, port: int) -> None:
    """Serve the bot of ``file`` until SIGTERM or SIGINT; what is unfinished then, the next process continues.

    Raises:
        DefinitionInvalid, PRINCIPAL_DIFFERS: the file cannot be used, or a key is another principal's.
        HostNotAllowed: an address leads to a metadata service.
        BadRequest: another process has the port.
        CHANNEL_RUNNING, CHANNEL_REFUSED: another process has the state, or Discord does not let the bot in.
    """
    section = _section(file, fields)
    token = secret_of(file, "discord.token", section.token)
    people = People.of(file, "discord", section, lambda key: AsyncCallboard(fields.server, key, timeouts=TIMEOUTS))
    records = Records(state / "channels" / "discord.db", time.time())
    try:
        for address in (fields.server, section.api, section.gateway.replace("ws", "http", 1)):
            await require_operators_url(address, allowed_in(settings().http_allowed_hosts))
        await people.compare_all()
        channel = DiscordChannel(section)
        tasks = Tasks()
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
        try:
            await _until_signal(channel, token)
        finally:
            await tasks.close()
            await channel.close()
            await runner.cleanup()
    finally:
        await people.close()
        records.close()


def _section(file: Path, fields: ChannelsFields) -> DiscordFields:
    if fields.discord is None:
        raise DefinitionInvalid(str(file), None, "discord", "is missing; docs/channels.md shows the section.")
    return fields.discord


async def _until_signal(channel: DiscordChannel, token: str) -> None:
    """Serve until a signal; what the platform refuses is raised."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    serving, waiting = asyncio.create_task(channel.serve(token)), asyncio.create_task(over.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if serving.done():
        serving.result()
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def serve_health(channel: DiscordChannel, host: str, port: int) -> web.AppRunner:
    """Serve ``/health`` (the process works) and ``/ready`` (Discord delivers messages), without a credential."""

    async def health(_request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def ready(_request: web.Request) -> web.Response:
        if channel.is_connected:
            return web.json_response({"status": "ready"})
        return web.json_response({"status": "starting", "problem": "Discord's gateway is not connected."}, status=503)

    application = web.Application()
    application.add_routes([web.get("/health", health), web.get("/ready", ready)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise BadRequest(f"cannot serve {host}:{port}: {error.strerror}; choose another --port.") from error
    return runner
