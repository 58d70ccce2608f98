"""A Discord of the test's own, over real sockets: the REST calls and the gateway that a bot uses, by the public schema.

https://discord.com/developers/docs: gateway (hello, heartbeats, identify, resume, compressed dispatch), messages,
interactions and rate limits. It refuses what Discord refuses: long texts, foreign tokens, unknown messages.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
import zlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import WSMsgType, web

T = TypeVar("T")
Answer = tuple[int, Any, dict[str, str]]
"""Status, body and headers."""
TOKEN = "bot-token-of-the-test.abcdef.0123456789"
BOT = {"id": "9001", "username": "steward", "discriminator": "0", "avatar": None, "bot": True, "global_name": None}
GUILD = "7001"
BUCKET, WINDOW_S = 5, 5.0
"""Messages, and edits, that one channel takes in a window."""
UNAUTHORIZED: Answer = 401, {"message": "401: Unauthorized", "code": 0}, {}
_EPOCH_MS = 1_420_070_400_000


@dataclass(kw_only=True)
class Request:
    """One request of the bot."""

    at: float
    method: str
    path: str
    body: Any
    status: int = 0


@dataclass(kw_only=True)
class Session:
    """A gateway session, which outlives its sockets."""

    seq: int = 0
    sent: list[dict[str, Any]] = field(default_factory=list)
    socket: web.WebSocketResponse | None = None
    compressor: Any = None


class FakeDiscord:
    """Start it with ``with``; what tests call is safe from their thread."""

    def __init__(self, *, heartbeat_ms: int = 41_250, is_strict: bool = True) -> None:
        """``is_strict``: whether too many messages or edits are answered with 429."""
        self.heartbeat_ms, self.is_strict = heartbeat_ms, is_strict
        self.requests: list[Request] = []
        self.messages: dict[str, dict[str, Any]] = {}
        self.responses: list[tuple[str, dict[str, Any]]] = []
        """Of interactions: the interaction's id, and what was shown."""
        self.ops: list[str] = []
        """What sockets of the gateway did: hello, identify, resume, resumed, heartbeat."""
        self.delay_s = 0.0
        """Between what a request changes and its answer."""
        self._sessions: dict[str, Session] = {}
        self._deleted_channels: set[str] = set()
        self._is_global = False
        self._limited: dict[str, list[float]] = {}
        self._nonces: dict[tuple[str, str], str] = {}
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FakeDiscord:
        self._thread.start()
        self.port: int = self._call(self._start())
        self.api, self.gateway = f"http://127.0.0.1:{self.port}/api/v10", f"ws://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._drop())
        self._call(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _start(self) -> int:
        application = web.Application()
        application.add_routes([web.get("/", self._gateway), web.route("*", "/api/v10/{path:.*}", self._rest)])
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    # --- what persons do, and what happens to Discord

    def say(self, text: str, *, user: str = "1", place: str = "500", times: int = 1, **more: Any) -> str:
        """A person writes a message, which the gateway delivers ``times`` times; a place above 1000 is in a server."""
        message = self._message(
            place, {"id": user, "username": f"user{user}", "discriminator": "0", "avatar": None}, text
        )
        message |= more
        for _ in range(times):
            self._call(self._dispatch("MESSAGE_CREATE", message | _guild_of(place)))
        return str(message["id"])

    def press(self, message_id: str, label: str, *, user: str = "1") -> str:
        """A person presses a button, and gets an interaction's id."""
        message = self.messages[message_id]
        [button] = [item for row in message["components"] for item in row["components"] if item["label"] == label]
        return self.interact(3, {"custom_id": button["custom_id"], "component_type": 2}, user, message)

    def submit(self, interaction_id: str, values: Mapping[str, str], *, user: str = "1") -> str:
        """A person fills in the form that an interaction has shown."""
        [form] = [body["data"] for number, body in self.responses if number == interaction_id and body["type"] == 9]
        labels = [label["component"] for label in form["components"]]
        rows = [{"type": 18, "id": n, "component": _filled(item, values)} for n, item in enumerate(labels)]
        return self.interact(5, {"custom_id": form["custom_id"], "components": rows}, user, None)

    def interact(self, kind: int, data: Mapping[str, Any], user: str, message: Mapping[str, Any] | None) -> str:
        number = self._id()
        place = message["channel_id"] if message else "500"
        person = {"id": user, "username": f"user{user}", "discriminator": "0", "avatar": None}
        interaction = {"id": number, "application_id": "8001", "type": kind, "data": data, "token": f"token{number}"}
        interaction |= {"version": 1, "attachment_size_limit": 1000, "channel_id": place, "locale": "en-GB"}
        interaction |= {"user": person, "channel": {"id": place, "type": 1, "recipients": [person]}, "entitlements": []}
        interaction |= {"message": message} if message else {}
        self._call(self._dispatch("INTERACTION_CREATE", interaction))
        return number

    def drop(self, *, is_forgotten: bool = False) -> None:
        """Close the bot's sockets; ``is_forgotten``: its session cannot be resumed."""
        self._call(self._drop(is_forgotten))

    def limit(self, place: str, *retry_after_s: float, is_global: bool = False) -> None:
        """Refuse the next edits in a place with 429, each with its Retry-After; ``is_global``: for the whole bot."""
        self._limited[place], self._is_global = list(retry_after_s), is_global

    def delete(self, message_id: str) -> None:
        del self.messages[message_id]

    def delete_channel(self, place: str) -> None:
        self._deleted_channels.add(place)

    # --- what tests look at

    def until(self, condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
        """Return what the condition returns, once it is true."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout_s), (self.texts(), self.responses, self.requests[-3:])
            return condition()

    def by_bot(self, place: str | None = None) -> list[dict[str, Any]]:
        """Return the bot's messages as they are now, in order."""
        own = [message for message in list(self.messages.values()) if message["author"]["id"] == BOT["id"]]
        return [message for message in own if place in (None, message["channel_id"])]

    def texts(self, place: str | None = None) -> list[str]:
        return [message["content"] for message in self.by_bot(place)]

    def sent_to(self, place: str, method: str = "PATCH", status: int = 200) -> list[Request]:
        prefix = f"channels/{place}/messages"
        listed = [each for each in list(self.requests) if each.method == method and each.path.startswith(prefix)]
        return [request for request in listed if request.status == status]

    def shown(self, interaction_id: str) -> list[str]:
        """Return the sentences that the person of an interaction alone has seen."""
        return [
            body["content"] for number, body in list(self.responses) if number == interaction_id and body.get("content")
        ]

    # --- REST

    async def _rest(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        body = json.loads(await request.text() or "null")
        entry = Request(at=time.monotonic(), method=request.method, path=path, body=body)
        is_open = path.startswith(("interactions/", "webhooks/"))
        if not is_open and request.headers.get("Authorization") != f"Bot {TOKEN}":
            status, answer, headers = UNAUTHORIZED
        else:
            status, answer, headers = self._answer(entry, dict(request.query))
        entry.status = status
        self.requests.append(entry)
        self._tell()
        await asyncio.sleep(self.delay_s)
        headers = headers | {
            "Via": "1.1 google",
            "Content-Type": "application/json",
        }  # discord.py wants it without a charset
        return web.Response(body=json.dumps(answer).encode(), status=status, headers=headers)

    def _answer(self, request: Request, query: Mapping[str, str]) -> Answer:
        match request.method, request.path.split("/"):
            case "GET", ["users", "@me"]:
                return 200, BOT, {}
            case "GET", ["oauth2", "applications", "@me"]:
                facts = {"id": "8001", "name": "steward", "description": "", "icon": None, "bot_public": False}
                return 200, facts | {"bot_require_code_grant": False, "owner": BOT, "verify_key": "00", "flags": 0}, {}
            case "GET", ["channels", place, "messages"]:
                behind = int(query.get("after", "0"))
                own = [
                    each for each in self.messages.values() if each["channel_id"] == place and int(each["id"]) > behind
                ]
                return 200, own[: int(query["limit"])][::-1], {}
            case "GET", ["channels", _, "messages", message_id]:
                message = self.messages.get(message_id)
                return (200, message, {}) if message else (404, {"code": 10008, "message": "Unknown Message"}, {})
            case "POST", ["channels", place, "messages"]:
                return self._limits(request, place) or self._post(place, request.body)
            case "PATCH", ["channels", place, "messages", message_id]:
                return self._limits(request, place) or self._patch(place, message_id, request.body)
            case "POST", ["interactions", number, _, "callback"]:
                assert number not in {seen for seen, body in self.responses if "type" in body}, "one first response"
                self.responses.append((number, request.body))
                return 200, {"interaction": {"id": number, "type": 3}}, {}
            case "POST", ["webhooks", "8001", token]:
                self.responses.append((token.removeprefix("token"), request.body))
                return 200, self._message("500", BOT, request.body["content"], is_kept=False), {}
        return 404, {"code": 0, "message": f"404: {request.method} {request.path}"}, {}

    def _limits(self, request: Request, place: str) -> Answer | None:
        """Return a 429 where the place takes no more now."""
        if request.method == "PATCH" and self._limited.get(place):
            wait_s = self._limited[place].pop(0)
        else:
            own = [each for each in self.sent_to(place, request.method) if each.at > request.at - WINDOW_S]
            if not self.is_strict or len(own) < BUCKET:
                return None
            wait_s = own[0].at + WINDOW_S - request.at
        body = {"message": "You are being rate limited.", "retry_after": wait_s, "global": self._is_global}
        scope = {"X-RateLimit-Global": "true"} if self._is_global else {"X-RateLimit-Scope": "user"}
        return 429, body, {"Retry-After": f"{wait_s:.3f}", **scope}

    def _post(self, place: str, body: Mapping[str, Any]) -> Answer:
        if place in self._deleted_channels:
            return 404, {"code": 10003, "message": "Unknown Channel"}, {}
        if refusal := _refusal(body):
            return refusal
        earlier = self._nonces.get((place, body["nonce"])) if body.get("enforce_nonce") else None
        message = self.messages.get(earlier or "") or self._message(place, BOT, body["content"])
        message |= {"components": body.get("components", []), "flags": body.get("flags", 0)}
        message |= {"message_reference": body.get("message_reference"), "nonce": body.get("nonce")}
        self._nonces[place, body["nonce"]] = str(message["id"])
        return 200, message, {}

    def _patch(self, place: str, message_id: str, body: Mapping[str, Any]) -> Answer:
        if place in self._deleted_channels or message_id not in self.messages:
            return 404, {"code": 10008, "message": "Unknown Message"}, {}
        if refusal := _refusal(body):
            return refusal
        self.messages[message_id] |= {key: body[key] for key in ("content", "components") if body.get(key) is not None}
        return 200, self.messages[message_id], {}

    def _id(self) -> str:
        return str(((int(time.time() * 1000) - _EPOCH_MS) << 22) + next(self._numbers))

    def _message(self, place: str, author: Mapping[str, Any], text: str, *, is_kept: bool = True) -> dict[str, Any]:
        message: dict[str, Any] = {"id": self._id(), "channel_id": place, "author": author, "content": text, "type": 0}
        message |= {"timestamp": "2026-11-20T12:00:00+00:00", "edited_timestamp": None, "tts": False, "mentions": []}
        message |= {"mention_everyone": "@everyone" in text, "mention_roles": [], "attachments": [], "embeds": []}
        message |= {"pinned": False, "components": [], "flags": 0}
        message["mentions"] = [BOT] if f"<@{BOT['id']}>" in text else []
        if is_kept:
            self.messages[message["id"]] = message
        return message

    # --- the gateway

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        is_compressed = request.query.get("compress") == "zlib-stream"
        session = Session(socket=socket, compressor=zlib.compressobj() if is_compressed else None)
        await self._send(session, {"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}})
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            message = json.loads(frame.data)
            session = await self._take(session, message["op"], message["d"])
        return socket

    async def _take(self, session: Session, op: int, data: Any) -> Session:
        match op:
            case 1:
                self._note("heartbeat")
                await self._send(session, {"op": 11, "d": None})
            case 2:
                await self._identify(session, data)
            case 6:
                return await self._resume(session, data)
        return session

    async def _identify(self, session: Session, data: Mapping[str, Any]) -> None:
        if data["token"].removeprefix("Bot ") != TOKEN:
            assert session.socket is not None
            await session.socket.close(code=4004)
            return
        number = f"session{next(self._numbers)}"
        self._sessions[number] = session
        ready = {"v": 10, "user": BOT, "session_id": number, "resume_gateway_url": self.gateway, "shard": [0, 1]}
        ready |= {"guilds": [{"id": GUILD, "unavailable": True}], "application": {"id": "8001", "flags": 0}}
        await self._event(session, "READY", ready)
        guild = {
            "id": GUILD,
            "name": "Hall",
            "channels": [],
            "roles": [],
            "members": [],
            "member_count": 3,
            "threads": [],
        }
        await self._event(session, "GUILD_CREATE", guild)
        self._note("identify")

    async def _resume(self, session: Session, data: Mapping[str, Any]) -> Session:
        old_session = self._sessions.get(data["session_id"])
        if old_session is None:
            self._note("resume refused")
            await self._send(session, {"op": 9, "d": False})
            return session
        old_session.socket, old_session.compressor = session.socket, session.compressor
        for event in [event for event in old_session.sent if event["s"] > data["seq"]]:
            await self._send(old_session, event)
        await self._event(old_session, "RESUMED", {"_trace": []})
        self._note("resume")
        return old_session

    async def _dispatch(self, name: str, data: Mapping[str, Any]) -> None:
        for session in list(self._sessions.values()):
            await self._event(session, name, data)

    async def _event(self, session: Session, name: str, data: Mapping[str, Any]) -> None:
        session.seq += 1
        event = {"op": 0, "t": name, "s": session.seq, "d": data}
        session.sent.append(event)
        await self._send(session, event)

    async def _send(self, session: Session, message: Mapping[str, Any]) -> None:
        if session.socket is None or session.socket.closed:
            return
        text = json.dumps(message).encode()
        try:
            if session.compressor is None:
                await session.socket.send_str(text.decode())
            else:
                data = session.compressor.compress(text) + session.compressor.flush(zlib.Z_SYNC_FLUSH)
                await session.socket.send_bytes(data)
        except ConnectionError:
            session.socket = None

    async def _drop(self, is_forgotten: bool = False) -> None:
        sockets = [session.socket for session in self._sessions.values() if session.socket is not None]
        if is_forgotten:
            self._sessions.clear()
        for session in self._sessions.values():
            session.socket = None
        for socket in sockets:
            await socket.close(code=4000)

    def _note(self, what: str) -> None:
        self.ops.append(what)
        self._tell()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _refusal(body: Mapping[str, Any]) -> Answer | None:
    """Return Discord's refusal of a message that breaks its limits."""
    text = body.get("content") or ""
    buttons = [item for row in body.get("components") or () for item in row["components"]]
    is_wrong = len(text.encode("utf-16-le")) // 2 > 2000 or len(buttons) > 25
    is_wrong |= any(len(item["label"]) > 80 or len(item["custom_id"]) > 100 for item in buttons)
    if is_wrong:
        return 400, {"code": 50035, "message": "Invalid Form Body"}, {}
    if not text.strip():
        return 400, {"code": 50006, "message": "Cannot send an empty message"}, {}
    return None


def _guild_of(place: str) -> dict[str, Any]:
    return {"guild_id": GUILD} if int(place) > 1000 else {}


def _filled(item: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    value = values.get(item["custom_id"], "")
    filled = {"type": item["type"], "id": 1, "custom_id": item["custom_id"]}
    return filled | ({"values": [value]} if item["type"] == 3 else {"value": value})
