"""Discord, by discord.py: messages, buttons and forms of one bot."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import aiohttp
import discord
import yarl
from aiohttp import web
from discord.gateway import DiscordWebSocket
from discord.http import Route

from observers.channels.channel import Button, ChannelLimits, Form, PersonMessage, PostDelivery, Press
from observers.channels.conversation import Conversations
from observers.channels.errors import CHANNEL_REFUSED
from observers.channels.questions import Questions
from observers.channels.table import DiscordFields
from observers.channels.texts import shown

log = logging.getLogger(__name__)

T = TypeVar("T")
MAX_CHARS = 1990
"""Of Discord's 2000."""
LATER_S = 3.0
"""After an error of Discord, or of the network, until the next attempt."""
HISTORY = 100
"""Messages behind a person's that are looked through for the bot's replies."""
STYLES = {
    "good": discord.ButtonStyle.success,
    "bad": discord.ButtonStyle.danger,
    "plain": discord.ButtonStyle.secondary,
}
_OF_CHANNEL = re.compile(r"/channels/(\d{1,20})/messages")


class DiscordChannel(discord.Client):
    """One bot. A direct conversation, a channel of a server and a thread of it are a place each."""

    name = "discord"
    problem = "Discord's gateway is not connected."
    limits = ChannelLimits(max_chars=MAX_CHARS)

    def __init__(self, fields: DiscordFields, token: str) -> None:
        self._token = token
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = True
        intents.message_content = fields.answers == "all"  # of messages to the bot it is there without
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._look_at)
        options: dict[str, Any] = {"http_trace": trace, "max_messages": None, "chunk_guilds_at_startup": False}
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # it makes no calls
        super().__init__(intents=intents, allowed_mentions=discord.AllowedMentions.none(), **options)
        self._answers_all = fields.answers == "all"
        self._limited: dict[str, asyncio.Future[float]] = {}
        self.conversations: Conversations | None = None
        """Takes what persons write; set before the bot is started."""
        self.questions: Questions | None = None
        """Takes what persons press; set before the bot is started."""
        self.is_connected = False
        """Whether the gateway delivers."""
        Route.BASE = fields.api.rstrip("/")
        DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(fields.gateway)

    async def serve(self) -> None:
        """Serve until ``close``.

        Raises:
            CHANNEL_REFUSED: Discord does not know the token, or does not let the bot read messages.
        """
        try:
            await self._log_in(self._token)
            await self.connect()
        except discord.LoginFailure as error:
            problem = "the token is not that of a bot; copy it again from the developer portal (page Bot)."
            raise CHANNEL_REFUSED(platform="Discord", problem=problem) from error
        except discord.PrivilegedIntentsRequired as error:
            problem = "`answers: all` needs the Message Content Intent; turn it on in the developer portal (page Bot)."
            raise CHANNEL_REFUSED(platform="Discord", problem=problem) from error
        except discord.ConnectionClosed as error:
            problem = f"its gateway closed the connection with the code {error.code}."
            raise CHANNEL_REFUSED(platform="Discord", problem=problem) from error

    async def _log_in(self, token: str) -> None:
        """Return once Discord knows the bot; a Discord that is away is tried again."""
        while True:
            try:
                return await self.login(token)
            except discord.LoginFailure:
                raise
            except (discord.HTTPException, aiohttp.ClientError, OSError, TimeoutError) as error:
                log.warning("Discord was not reached", extra={"problem": str(error)})
                await asyncio.sleep(LATER_S)

    @property
    def account(self) -> str:
        return str(self.user.id) if self.user is not None else ""

    # --- what Discord delivers

    async def setup_hook(self) -> None:
        if self.conversations is not None:
            self.conversations.resume()

    async def on_ready(self) -> None:
        self.is_connected = True

    async def on_resumed(self) -> None:
        self.is_connected = True

    async def on_disconnect(self) -> None:
        self.is_connected = False

    async def on_message(self, message: discord.Message) -> None:
        if self.conversations is not None and self._is_for_bot(message):
            self.conversations.receive(self._incoming(message))

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        data: Any = interaction.data or {}
        if self.questions is None or ":" not in (token := str(data.get("custom_id", ""))):
            return
        is_form = interaction.type is discord.InteractionType.modal_submit
        values = dict(_values_in(data.get("components", ()))) if is_form else None
        press = Press(user_id=str(interaction.user.id), token=token, values=values)
        try:
            await self._respond(interaction, self.questions.press(press))
        except (discord.HTTPException, aiohttp.ClientError, TimeoutError) as error:
            log.warning("the answer to a press was not shown", extra={"problem": str(error)})

    async def _respond(self, interaction: discord.Interaction, answer: Coroutine[Any, Any, str | Form | None]) -> None:
        """Show what a press leads to; Discord waits three seconds for a first response."""
        work = asyncio.ensure_future(answer)
        done, _ = await asyncio.wait({work}, timeout=0.2)  # a form has to be the first response, and needs no request
        if done and isinstance(form := work.result(), Form):
            await interaction.response.send_modal(_modal(form))
            return
        await interaction.response.defer()
        if isinstance(sentence := await work, str):
            await interaction.followup.send(shown(sentence)[:MAX_CHARS], ephemeral=True, suppress_embeds=True)

    def _is_for_bot(self, message: discord.Message) -> bool:
        if message.author.bot or message.webhook_id is not None or message.is_system():
            return False
        return message.guild is None or self._answers_all or self.user in message.mentions

    def _incoming(self, message: discord.Message) -> PersonMessage:
        text = message.content
        for mention in (f"<@{self.account}>", f"<@!{self.account}>"):
            text = text.replace(mention, "")
        return PersonMessage(
            message_id=str(message.id),
            place=str(message.channel.id),
            author_id=str(message.author.id),
            author_name=message.author.name,
            text=text.strip(),
            attachments=[attachment.filename for attachment in message.attachments],
        )

    # --- what is sent to Discord

    async def send(
        self, place: str, text: str, *, reply_to: str, key: str, buttons: Sequence[Button] = ()
    ) -> PostDelivery:
        view = _view(buttons)
        reference = discord.MessageReference(message_id=int(reply_to), channel_id=int(place), fail_if_not_exists=False)
        options: dict[str, Any] = {} if view is None else {"view": view}
        sending = self.get_partial_messageable(int(place)).send(
            text,
            reference=reference,
            nonce=hashlib.sha256(key.encode()).hexdigest()[:24],  # Discord posts one message a nonce
            suppress_embeds=True,  # else Discord fetches each address of the text
            mention_author=False,
            **options,
        )
        delivery = await _delivered(sending)
        if view is not None:
            view.stop()  # `on_interaction` takes the presses, after a restart too
        return delivery

    async def edit(self, place: str, message_id: str, text: str, buttons: Sequence[Button] = ()) -> PostDelivery:
        message = self.get_partial_messageable(int(place)).get_partial_message(int(message_id))
        view = _view(buttons)
        work = asyncio.ensure_future(_delivered(message.edit(content=text, view=view)))
        limited = self._limited[place] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait({work, limited}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            return PostDelivery(state="later", wait_s=limited.result())
        finally:
            work.cancel()  # else discord.py repeats it with a text that is old by then
            limited.cancel()
            self._limited.pop(place, None)
            if view is not None:
                view.stop()

    async def fetch(self, place: str, message_id: str) -> PersonMessage | None:
        message = await _read(lambda: self.get_partial_messageable(int(place)).fetch_message(int(message_id)))
        return None if message is None else self._incoming(message)

    async def replies(self, place: str, message_id: str) -> list[str]:
        behind = discord.Object(int(message_id))

        async def history() -> list[discord.Message]:
            messages = self.get_partial_messageable(int(place)).history(limit=HISTORY, after=behind, oldest_first=True)
            return [message async for message in messages]

        return [str(message.id) for message in await _read(history) or () if self._is_reply(message, message_id)]

    def routes(self) -> list[web.RouteDef]:
        return []

    async def finish(self, place: str, message_id: str) -> None:
        return None

    def _is_reply(self, message: discord.Message, message_id: str) -> bool:
        reference = message.reference
        is_own = str(message.author.id) == self.account and not message.components
        return is_own and reference is not None and str(reference.message_id) == message_id

    async def _look_at(
        self, _session: object, _context: SimpleNamespace, params: aiohttp.TraceRequestEndParams
    ) -> None:
        """Let the edit of a place end that Discord does not take now; of a limit for the whole bot it is repeated."""
        response = params.response
        if response.status != 429 or "X-RateLimit-Global" in response.headers:
            return
        match = _OF_CHANNEL.search(params.url.path)
        limited = self._limited.get(match[1]) if match else None
        if limited is not None and not limited.done():
            limited.set_result(_seconds(response.headers.get("Retry-After", "")))


async def _delivered(request: Coroutine[Any, Any, discord.Message]) -> PostDelivery:
    """Return what became of a message."""
    try:
        return PostDelivery(state="done", message_id=str((await request).id))
    except (discord.NotFound, discord.Forbidden):
        return PostDelivery(state="gone")
    except discord.HTTPException as error:
        log.warning("Discord did not take a message", extra={"status": error.status, "problem": error.text})
        return PostDelivery(state="gone") if error.status in (400, 401) else PostDelivery(state="later", wait_s=LATER_S)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        log.warning("Discord was not reached", extra={"problem": str(error)})
        return PostDelivery(state="later", wait_s=LATER_S)


async def _read(request: Callable[[], Awaitable[T]]) -> T | None:
    """Return what Discord has, also where it has to be asked again; None where it is gone."""
    while True:
        try:
            return await request()
        except (discord.NotFound, discord.Forbidden):
            return None
        except (discord.HTTPException, aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("Discord was not reached", extra={"problem": str(error)})
            await asyncio.sleep(LATER_S)


def _seconds(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 3600.0)
    except ValueError:
        return LATER_S


def _view(buttons: Sequence[Button]) -> discord.ui.View | None:
    if not buttons:
        return None
    view = discord.ui.View(timeout=None)
    for button in buttons:
        view.add_item(
            discord.ui.Button[discord.ui.View](
                label=button.label[:80], custom_id=button.token, style=STYLES[button.style]
            )
        )
    return view


def _modal(form: Form) -> discord.ui.Modal:
    modal = discord.ui.Modal(title=form.title[:45], custom_id=form.token, timeout=900)
    for field in form.fields:
        item: discord.ui.Item[Any]
        if field.options:
            options = [discord.SelectOption(label=option[:100], value=option[:100]) for option in field.options]
            item = discord.ui.Select(custom_id=field.name[:100], options=options, required=field.required)
        else:
            style = discord.TextStyle.paragraph
            item = discord.ui.TextInput(
                custom_id=field.name[:100], style=style, required=field.required, default=field.default
            )
        modal.add_item(discord.ui.Label(text=field.label[:45], component=item))
    return modal


def _values_in(components: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a form with what was written or chosen."""
    for component in components:
        if "custom_id" in component:
            chosen = component.get("values") or [component.get("value") or ""]
            yield str(component["custom_id"]), str(chosen[0])
        inner = [component["component"]] if "component" in component else component.get("components", ())
        yield from _values_in(inner)
