"""Slack, by Bolt: messages in threads, answers as streams, buttons and forms of one app.

Events come through Socket Mode or by HTTP, which Bolt verifies. A place is a thread of a channel or of a direct
conversation; a message outside of a thread opens one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import unescape
from typing import Any, TypeVar

import aiohttp
from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from observers.channels.channel import AnswerField, Button, ChannelLimits, Form, PersonMessage, PostDelivery, Press
from observers.channels.conversation import THINKING, Conversations
from observers.channels.errors import CHANNEL_REFUSED
from observers.channels.questions import Questions
from observers.channels.records import Records
from observers.channels.table import SlackFields
from observers.channels.texts import escaped, shown, without_remark

log = logging.getLogger(__name__)

T = TypeVar("T")
MAX_CHARS = 4_700
"""Of Slack's 12,000, since each escape makes a text longer."""
LATER_S = 3.0
"""After an error of Slack, or of the network, until the next attempt."""
ACTION, FORM = "callboard", "callboard-form"
STYLES = {"good": "primary", "bad": "danger"}
REFUSED = ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type")
BUSY = ("ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout")
NETWORK = (aiohttp.ClientError, OSError, TimeoutError)


class SlackChannel:
    """One app in one workspace."""

    name = "slack"
    problem = "Slack's connection is not open."
    limits = ChannelLimits(max_chars=MAX_CHARS)

    def __init__(self, fields: SlackFields, secrets: Mapping[str, str], records: Records) -> None:
        self._secrets, self._records = secrets, records
        base_url = f"{fields.api.rstrip('/')}/"
        self._client = AsyncWebClient(secrets["token"], base_url=base_url, retry_handlers=[])  # waits are ours
        verified = secrets.get("signing_secret", "socket")
        self._app = AsyncApp(client=self._client, signing_secret=verified, logger=logging.getLogger("slack_bolt"))
        self._handler: AsyncSocketModeHandler | None = None
        self._recipients: dict[str, tuple[str, str]] = {}
        self._streams: dict[str, str] = {}
        """What each message that is being streamed has so far."""
        self._texts: dict[str, tuple[str, tuple[Button, ...]]] = {}
        self._can_stream = True
        self.account = ""
        self.conversations: Conversations | None = None
        """Takes what persons write; set before the app is started."""
        self.questions: Questions | None = None
        """Takes what persons press; set before the app is started."""
        self.is_connected = False
        self._listen()

    def _listen(self) -> None:
        self._app.event("app_mention")(self._on_message)
        self._app.event("message")(self._on_message)
        self._app.event(re.compile("^assistant_thread_"))(_ignore)
        self._app.action(re.compile(rf"^{ACTION}:\d+$"))(self._on_press)
        self._app.view(FORM)(self._on_form)

    async def serve(self) -> None:
        """Serve until it is cancelled.

        Raises:
            CHANNEL_REFUSED: Slack does not know a token.
        """
        me = await self._checked(self._client.auth_test)
        self.account = str(me["user_id"])
        app_token = self._secrets.get("app_token")
        if app_token is not None:
            await self._checked(lambda: self._client.apps_connections_open(app_token=app_token))
        if self.conversations is not None:
            self.conversations.resume()
        if app_token is None:
            self.is_connected = True
            await asyncio.Event().wait()
        self._handler = AsyncSocketModeHandler(self._app, app_token, web_client=self._client, ping_interval=5)
        connecting = asyncio.ensure_future(self._handler.client.connect())  # type: ignore[no-untyped-call]
        try:
            while True:
                self.is_connected = await self._handler.client.is_connected()
                await asyncio.sleep(0.5)
        finally:
            connecting.cancel()

    async def _checked(self, request: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await request()
            except SlackApiError as error:
                if error.response.get("error") in REFUSED:
                    code = error.response.get("error")
                    problem = f"`token` or `app_token` is not that of the app ({code}); copy both again."
                    raise CHANNEL_REFUSED(platform="Slack", problem=problem) from error
                log.warning("Slack was not reached", extra={"problem": str(error.response.get("error"))})
            except NETWORK as error:
                log.warning("Slack was not reached", extra={"problem": str(error)})
            await asyncio.sleep(LATER_S)

    async def close(self) -> None:
        """End the connection."""
        if self._handler is not None:
            await self._handler.client.close()  # type: ignore[no-untyped-call]

    def routes(self) -> list[web.RouteDef]:
        if "signing_secret" not in self._secrets:
            return []

        async def events(request: web.Request) -> web.Response:
            return await to_aiohttp_response(await self._app.async_dispatch(await to_bolt_request(request)))

        return [web.post("/slack/events", events)]

    # --- what Slack delivers

    async def _on_message(self, event: dict[str, Any], context: Mapping[str, Any]) -> None:
        is_direct = event.get("channel_type") == "im"
        is_plain = event.get("subtype") in (None, "file_share") and not event.get("bot_id") and event.get("user")
        if self.conversations is None or not is_plain or not (is_direct or event["type"] == "app_mention"):
            return
        message = self._incoming(event, str(event["channel"]))
        self._recipients[message.message_id] = (str(event.get("team") or context.get("team_id")), message.author_id)
        if len(self._recipients) > 1000:
            del self._recipients[next(iter(self._recipients))]
        self.conversations.receive(message)

    def _incoming(self, event: Mapping[str, Any], channel: str) -> PersonMessage:
        stamp, user = str(event["ts"]), str(event.get("user") or "")
        text = unescape(str(event.get("text") or "").replace(f"<@{self.account}>", ""))
        return PersonMessage(
            message_id=f"{channel}.{stamp}",
            place=f"{channel}:{event.get('thread_ts') or stamp}",
            author_id=user,
            author_name=user,
            text=text.strip(),
            attachments=[str(file.get("name") or "file") for file in event.get("files") or ()],
        )

    async def _on_press(self, ack: Any, body: dict[str, Any], action: dict[str, Any]) -> None:
        await ack()
        container = body.get("container") or {}
        where = {"channel": container.get("channel_id"), "thread": container.get("thread_ts")}
        press = Press(user_id=str(body["user"]["id"]), token=str(action.get("value", "")))
        answer = await self.questions.press(press) if self.questions is not None else None
        if isinstance(answer, Form):
            await _delivered(self._client.views_open(trigger_id=body["trigger_id"], view=_view(answer, where)), "-")
        elif answer is not None:
            await self._whisper(where, press.user_id, answer)

    async def _on_form(self, ack: Any, body: dict[str, Any], view: dict[str, Any]) -> None:
        await ack()
        facts = json.loads(view["private_metadata"])
        press = Press(user_id=str(body["user"]["id"]), token=facts["token"], values=_values_in(view["state"]["values"]))
        answer = await self.questions.press(press) if self.questions is not None else None
        if isinstance(answer, str):
            await self._whisper(facts, press.user_id, answer)

    async def _whisper(self, where: Mapping[str, Any], user: str, sentence: str) -> None:
        """Show a sentence to one person alone."""
        text = escaped(shown(sentence))[:MAX_CHARS]
        channel, thread = str(where["channel"]), where["thread"]
        await _delivered(self._client.chat_postEphemeral(channel=channel, thread_ts=thread, user=user, text=text), "-")

    # --- what is sent to Slack

    async def send(
        self, place: str, text: str, *, reply_to: str, key: str, buttons: Sequence[Button] = ()
    ) -> PostDelivery:
        channel, thread = place.split(":")
        note = f"posting-{key}"
        earlier = [] if self._records.noted(note) is None else await self._own(place, reply_to)
        for stamp, _, own_key in earlier:  # its answer was lost
            if own_key == key or (not own_key and self._is_answer(key)):
                return PostDelivery(state="done", message_id=stamp)
        self._records.note(note, True, time.time())
        recipient = self._recipients.get(reply_to)
        if self._can_stream and recipient is not None and not buttons and self._is_answer(key):
            delivery = await self._start_stream(channel, thread, recipient, _grown(text))
            if delivery is not None:
                return delivery
        metadata = {"event_type": "callboard_answer", "event_payload": {"reply_to": reply_to, "key": key}}
        request = self._client.chat_postMessage(
            channel=channel,
            thread_ts=thread,
            metadata=metadata,
            unfurl_links=False,  # else Slack fetches each address of the text
            unfurl_media=False,
            **_content(text, buttons),
        )
        delivery = await _delivered(request)
        if delivery.state == "done":
            self._texts[delivery.message_id] = (text, tuple(buttons))
        return delivery

    async def _start_stream(
        self, channel: str, thread: str, recipient: tuple[str, str], body: str
    ) -> PostDelivery | None:
        """Start a message that grows; None: this workspace has none."""
        team, user = recipient
        try:
            answer = await self._client.chat_startStream(
                channel=channel,
                thread_ts=thread,
                recipient_team_id=team,
                recipient_user_id=user,
                markdown_text=body or None,
            )
        except SlackApiError as error:
            if _state_of(error) == "gone" and error.response.get("error") not in ("channel_not_found", "is_archived"):
                log.warning("answers are not streamed", extra={"problem": error.response.get("error")})
                self._can_stream = False
                return None
            return _delivery_of(error)
        except NETWORK as error:
            return _delivery_of(error)
        self._streams[str(answer["ts"])] = body
        return PostDelivery(state="done", message_id=str(answer["ts"]))

    async def edit(self, place: str, message_id: str, text: str, buttons: Sequence[Button] = ()) -> PostDelivery:
        channel = place.split(":", maxsplit=1)[0]
        if self._texts.get(message_id) == (text, tuple(buttons)):
            return PostDelivery(state="done", message_id=message_id)
        if (body := self._streams.get(message_id)) is not None and _grown(text).startswith(body):
            return await self._append(channel, message_id, body, _grown(text))
        # Not written by an update before: it may be a stream whose text was withdrawn, or of an earlier process.
        if message_id not in self._texts and not await self._stop(channel, message_id):
            return PostDelivery(state="later", wait_s=LATER_S)
        request = self._client.chat_update(channel=channel, ts=message_id, **_content(text, buttons))
        delivery = await _delivered(request, message_id)
        if delivery.state == "done":
            self._texts[message_id] = (text, tuple(buttons))
        return delivery

    async def _append(self, channel: str, message_id: str, before: str, body: str) -> PostDelivery:
        if body == before:
            return PostDelivery(state="done", message_id=message_id)
        request = self._client.chat_appendStream(channel=channel, ts=message_id, markdown_text=body[len(before) :])
        delivery = await _delivered(request, message_id)
        if delivery.state == "done":
            self._streams[message_id] = body
        return delivery

    async def finish(self, place: str, message_id: str) -> None:
        """End the stream of a message, if it is one."""
        if message_id in self._streams:
            while not await self._stop(place.split(":", maxsplit=1)[0], message_id):
                await asyncio.sleep(LATER_S)
        self._texts.pop(message_id, None)

    async def _stop(self, channel: str, message_id: str) -> bool:
        """Return whether the message is no stream any more."""
        request = self._client.chat_stopStream(channel=channel, ts=message_id)
        delivery = await _delivered(request, message_id, log_it=False)
        if delivery.state == "later":
            return False
        self._streams.pop(message_id, None)
        return True

    async def fetch(self, place: str, message_id: str) -> PersonMessage | None:
        channel, _, stamp = message_id.partition(".")
        messages = await self._replies(place, oldest=stamp, latest=stamp)
        return next((self._incoming(each, channel) for each in messages if each.get("ts") == stamp), None)

    async def replies(self, place: str, message_id: str) -> list[str]:
        own = await self._own(place, message_id)
        return [stamp for stamp, reply_to, key in own if reply_to == message_id and (not key or self._is_answer(key))]

    async def _own(self, place: str, message_id: str) -> list[tuple[str, str, str]]:
        """Return the app's messages behind one: the time stamp, which message it replies to, and its key.

        A stream does not say that; one that no answer has was started as an earlier process ended, and has no key.
        """
        answers, own = self._records.answers_in(place), []
        for message in await self._replies(place, oldest=message_id.partition(".")[2]):
            payload = (message.get("metadata") or {}).get("event_payload") or {}
            if message.get("user") == self.account and (payload or message["ts"] not in answers):
                own.append((str(message["ts"]), payload.get("reply_to", message_id), payload.get("key", "")))
        return own

    def _is_answer(self, key: str) -> bool:
        """Return whether a message's key is that of an answer, and not that of a question."""
        return key.startswith(f"{self.name}-")

    async def _replies(self, place: str, **span: str) -> list[dict[str, Any]]:
        """Return messages of a thread; nothing where it is gone."""
        channel, thread = place.split(":")
        options: dict[str, Any] = {"limit": 200, "inclusive": True, "include_all_metadata": True, **span}
        while True:
            try:
                answer = await self._client.conversations_replies(channel=channel, ts=thread, **options)
                return list(answer.get("messages") or [])
            except (SlackApiError, *NETWORK) as error:
                delivery = _delivery_of(error)
                if delivery.state == "gone":
                    return []
                await asyncio.sleep(delivery.wait_s)


async def _ignore() -> None:
    """An event that needs nothing."""


def _grown(text: str) -> str:
    """Return the part of an unfinished answer that stays, as a stream has it."""
    return "" if text == THINKING else escaped(without_remark(text))


def _content(text: str, buttons: Sequence[Button]) -> dict[str, Any]:
    """Return what a message shows, as arguments of the Web API."""
    body = without_remark(text)
    remark = text[len(body) :].strip().removeprefix("-# ")
    text = escaped(f"{body}\n_{remark}_".strip() if remark else body)
    blocks: list[dict[str, Any]] = [{"type": "markdown", "text": text}]
    if buttons:
        elements = [
            {"type": "button", "action_id": f"{ACTION}:{number}", "value": button.token, "text": _plain(button.label)}
            | ({"style": STYLES[button.style]} if button.style in STYLES else {})
            for number, button in enumerate(buttons)
        ]
        blocks.append({"type": "actions", "elements": elements})
    return {"text": text[:3000], "blocks": blocks}


def _view(form: Form, where: Mapping[str, Any]) -> dict[str, Any]:
    blocks = [
        {"type": "input", "block_id": f"field:{number}", "label": _plain(field.label), "element": _element(field)}
        | {"optional": not field.required}
        for number, field in enumerate(form.fields)
    ]
    facts = json.dumps({"token": form.token, **where})
    view = {"type": "modal", "callback_id": FORM, "private_metadata": facts, "title": _plain(form.title[:24])}
    return view | {"submit": _plain("Send"), "blocks": blocks}


def _element(field: AnswerField) -> dict[str, Any]:
    if field.options:
        options = [{"text": _plain(option), "value": option[:150]} for option in field.options]
        return {"type": "static_select", "action_id": field.name[:255], "options": options}
    default = {"initial_value": field.default} if field.default else {}
    return {"type": "plain_text_input", "action_id": field.name[:255], "multiline": True} | default


def _plain(text: str) -> dict[str, str]:
    return {"type": "plain_text", "text": text[:75]}


def _values_in(values: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, str]:
    return {
        name: str((item.get("selected_option") or {}).get("value") or item.get("value") or "")
        for block in values.values()
        for name, item in block.items()
    }


async def _delivered(request: Awaitable[Any], message_id: str = "", *, log_it: bool = True) -> PostDelivery:
    """Return what became of a message."""
    try:
        answer = await request
    except (SlackApiError, *NETWORK) as error:
        if log_it:
            problem = str(getattr(error, "response", {}).get("error", error))
            log.warning("Slack did not take a message", extra={"problem": problem})
        return _delivery_of(error)
    return PostDelivery(state="done", message_id=message_id or str(answer["ts"]))


def _state_of(error: SlackApiError) -> str:
    status = int(getattr(error.response, "status_code", 200))
    return "later" if status == 429 or status >= 500 or error.response.get("error") in BUSY else "gone"


def _delivery_of(error: Exception) -> PostDelivery:
    if not isinstance(error, SlackApiError):
        return PostDelivery(state="later", wait_s=LATER_S)
    if _state_of(error) == "gone":
        return PostDelivery(state="gone")
    text = str(getattr(error.response, "headers", {}).get("Retry-After", ""))
    wait_s = min(float(text), 3600.0) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text, re.ASCII) else LATER_S
    return PostDelivery(state="later", wait_s=wait_s)
