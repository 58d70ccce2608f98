"""A Slack of the test's own, over real sockets: the Web API that an app uses, Socket Mode, and events by HTTP.

https://docs.slack.dev: apps.connections.open, hello, envelopes that are acknowledged, disconnect; messages, streams,
ephemeral messages, views, rate limits; signed requests. It refuses what Slack refuses.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import WSMsgType, web

T = TypeVar("T")
TOKEN, APP_TOKEN, SECRET = "xoxb-bot-token-of-the-test", "xapp-app-token-of-the-test", "signing-secret-of-the-test"
BOT, TEAM = "UBOT", "T0001"
MAX_MARKDOWN = 12_000
CHANGES = ("chat.postMessage", "chat.update", "chat.startStream", "chat.appendStream")


@dataclass(kw_only=True)
class Request:
    """One request of the app."""

    at: float
    method: str
    body: dict[str, Any]
    error: str | None = None


class FakeSlack:
    """Start it with ``with``; what tests call is safe from their thread."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.messages: dict[str, dict[str, Any]] = {}
        """By channel and time stamp."""
        self.whispers: list[tuple[str, str]] = []
        self.views: list[dict[str, Any]] = []
        self.acknowledged: list[str] = []
        self.connections = 0
        self.streams_with: str | None = None
        """The error of each start of a stream."""
        self.limited: list[float] = []
        """Retry-After of the next changes of a message."""
        self.delay_s = 0.0
        """Between what a request changes and its answer."""
        self.events_at = ""
        """Where events are sent by HTTP; empty: through Socket Mode."""
        self._numbers = itertools.count(1)
        self._sockets: list[web.WebSocketResponse] = []
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FakeSlack:
        self._thread.start()
        self.port: int = self._call(self._start())
        self.api = f"http://127.0.0.1:{self.port}/api/"
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _start(self) -> int:
        application = web.Application()
        application.add_routes([web.get("/link", self._socket), web.route("*", "/api/{method}", self._api)])
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return int(self._runner.addresses[0][1])

    async def _close(self) -> None:
        for socket in self._sockets:
            await socket.close()
        await self._runner.cleanup()

    # --- what persons do, and what happens to Slack

    def say(self, text: str, *, user: str, place: str = "D1", thread: str | None = None, times: int = 1) -> str:
        """A person writes; a place with D is a direct conversation, in another one the app is mentioned."""
        stamp = self._stamp()
        is_direct = place.startswith("D")
        event: dict[str, Any] = {"type": "message" if is_direct else "app_mention", "user": user, "text": text}
        event |= {"ts": stamp, "channel": place, "team": TEAM, "client_msg_id": f"m{stamp}", "event_ts": stamp}
        event |= {"channel_type": "im"} if is_direct else {}
        event |= {"thread_ts": thread} if thread else {}
        self.messages[f"{place}.{stamp}"] = event
        for number in range(times):
            self.deliver("events_api", self.event(event), retry=number)
        return stamp

    def event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        ids = {"team_id": TEAM, "api_app_id": "A1", "event_id": f"Ev{event['ts']}", "event_time": int(time.time())}
        user = [{"team_id": TEAM, "user_id": BOT, "is_bot": True}]
        return {"token": "x", "type": "event_callback", "event": event, "authorizations": user, **ids}

    def press(self, message: Mapping[str, Any], label: str, user: str) -> None:
        """A person presses a button of a message."""
        [actions] = [block for block in message["blocks"] if block["type"] == "actions"]
        [button] = [each for each in actions["elements"] if each["text"]["text"] == label]
        container = {"type": "message", "channel_id": message["channel"], "message_ts": message["ts"]}
        body: dict[str, Any] = {"type": "block_actions", "user": {"id": user, "team_id": TEAM}, "token": "x"}
        body |= {"team": {"id": TEAM}}
        body |= {"container": container | {"thread_ts": message["thread_ts"]}, "trigger_id": f"t{next(self._numbers)}"}
        body |= {"actions": [{**button, "block_id": "b", "action_ts": self._stamp()}], "api_app_id": "A1"}
        self.deliver("interactive", body)

    def submit(self, view: Mapping[str, Any], values: Mapping[str, str], user: str) -> None:
        """A person fills in a form."""
        state: dict[str, Any] = {}
        for block in view["blocks"]:
            name, kind = block["element"]["action_id"], block["element"]["type"]
            value = values.get(name)
            is_choice = kind == "static_select"
            item = {"selected_option": {"value": value} if value else None} if is_choice else {"value": value}
            state[block["block_id"]] = {name: {"type": kind, **item}}
        body = {"type": "view_submission", "user": {"id": user, "team_id": TEAM}, "team": {"id": TEAM}, "token": "x"}
        filled = {**view, "id": "V1", "state": {"values": state}}
        self.deliver("interactive", body | {"view": filled, "api_app_id": "A1"})

    def deliver(self, kind: str, payload: Mapping[str, Any], *, retry: int = 0) -> None:
        if self.events_at:
            assert self.post(json.dumps(payload).encode(), retry=retry) == 200
            return
        envelope: dict[str, Any] = {"type": kind, "envelope_id": f"e{next(self._numbers)}", "payload": payload}
        envelope |= {"accepts_response_payload": kind == "interactive"}
        envelope |= {"retry_attempt": retry, "retry_reason": "timeout"} if retry else {}
        self._call(self._sockets[-1].send_json(envelope))
        self.until(lambda: envelope["envelope_id"] in self.acknowledged)

    def post(self, body: bytes, *, secret: str = SECRET, age_s: float = 0, retry: int = 0) -> int:
        """Send an event by HTTP, signed, and return the status."""
        at = str(int(time.time() - age_s))
        signature = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Slack-Request-Timestamp": at}
        headers |= {"X-Slack-Signature": f"v0={signature}"}
        headers |= {"X-Slack-Retry-Num": str(retry), "X-Slack-Retry-Reason": "http_timeout"} if retry else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.events_at, body, headers), timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code

    def drop(self, *, with_notice: bool) -> None:
        """End the connection, with Slack's notice before or without."""

        async def drop() -> None:
            socket = self._sockets.pop()
            if with_notice:
                await socket.send_json({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}})
                await asyncio.sleep(0.2)
            await socket.close()

        self._call(drop())

    # --- what tests look at

    def until(self, condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
        """Return what the condition returns, once it is true."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout_s), (self.texts(), self.whispers, self.requests[-3:])
            return condition()

    def by_bot(self, place: str | None = None) -> list[dict[str, Any]]:
        own = [each for each in list(self.messages.values()) if each["user"] == BOT]
        return [each for each in own if place in (None, each["channel"])]

    def texts(self, place: str | None = None) -> list[str]:
        return [shown_in(each) for each in self.by_bot(place)]

    def sent(self, *methods: str, place: str | None = None, error: str | None = None) -> list[Request]:
        listed = [each for each in list(self.requests) if each.method in (methods or CHANGES) and each.error == error]
        return [each for each in listed if place in (None, each.body.get("channel"))]

    # --- the Web API

    async def _api(self, http: web.Request) -> web.Response:
        method, kind = http.match_info["method"], http.content_type
        body = await http.json() if kind == "application/json" else dict(await http.post() or http.query)
        body = {name: _decoded(value) for name, value in body.items()}
        token = str(http.headers.get("Authorization", "")).removeprefix("Bearer ")
        request = Request(at=time.monotonic(), method=method, body=body)
        headers: dict[str, str] = {}
        if token != (APP_TOKEN if method == "apps.connections.open" else TOKEN):
            answer: dict[str, Any] = {"ok": False, "error": "invalid_auth"}
        elif method in CHANGES and self.limited:
            answer, headers = {"ok": False, "error": "ratelimited"}, {"Retry-After": str(self.limited.pop(0))}
        else:
            answer = self._answer(method, body)
        request.error = answer.get("error")
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        await asyncio.sleep(self.delay_s)
        status = 429 if headers else 200
        return web.json_response({"ok": "error" not in answer} | answer, status=status, headers=headers)

    def _answer(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        message = self.messages.get(f"{body.get('channel')}.{body.get('ts')}")
        match method:
            case "auth.test":
                return {"user_id": BOT, "bot_id": "B1", "team_id": TEAM, "team": "t", "user": "steward", "url": "x"}
            case "apps.connections.open":
                return {"url": f"ws://127.0.0.1:{self.port}/link?ticket={next(self._numbers)}"}
            case "chat.postMessage":
                return self._post(body)
            case "chat.startStream" if self.streams_with:
                return {"error": self.streams_with}
            case "chat.startStream":
                assert body["recipient_user_id"]
                assert body["recipient_team_id"] == TEAM
                return self._post({**body, "text": body.get("markdown_text", ""), "streaming": True})
            case "chat.appendStream" | "chat.stopStream" | "chat.update":
                return {"error": "message_not_found"} if message is None else _change(method, message, body)
            case "chat.postEphemeral":
                self.whispers.append((body["user"], body["text"]))
                return {"message_ts": self._stamp()}
            case "views.open":
                self.views.append(body["view"])
                return {"view": body["view"]}
            case "conversations.replies":
                stamps = (body.get("oldest", "0"), body.get("latest", "9"))
                of_channel = [each for each in self.messages.values() if each["channel"] == body["channel"]]
                thread = [each for each in of_channel if body["ts"] in (each["ts"], each.get("thread_ts"))]
                return {"messages": [each for each in thread if stamps[0] <= each["ts"] <= stamps[1]]}
        return {"error": "unknown_method"}

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["channel"] == "CGONE":
            return {"error": "channel_not_found"}
        stamp = self._stamp()
        message = {"streaming": False, "blocks": [], **body, "user": BOT, "ts": stamp, "type": "message"}
        self.messages[f"{body['channel']}.{stamp}"] = message
        return {"ts": stamp, "channel": body["channel"], "message": message}

    def _stamp(self) -> str:
        return f"{int(time.time())}.{next(self._numbers):06d}"

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}})
        self._sockets.append(socket)
        with self._changed:
            self.connections += 1
            self._changed.notify_all()
        async for frame in socket:
            if frame.type is WSMsgType.TEXT:
                with self._changed:
                    self.acknowledged.append(json.loads(frame.data)["envelope_id"])
                    self._changed.notify_all()
        return socket


def _change(method: str, message: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    if (method == "chat.update") is message["streaming"]:
        problem = "streaming_state_conflict" if message["streaming"] else "message_not_in_streaming_state"
        return {"error": problem}
    if len(str(body.get("markdown_text", body.get("blocks", "")))) > MAX_MARKDOWN:
        return {"error": "msg_too_long"}
    if method == "chat.update":
        message.update(text=body["text"], blocks=body["blocks"])
    message["text"] += body["markdown_text"] if method == "chat.appendStream" else ""
    message["streaming"] = method == "chat.appendStream"
    return {"ts": body["ts"]}


def _decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value.startswith(("[", "{")) else value


def shown_in(message: Mapping[str, Any]) -> str:
    """Return what a message shows."""
    texts = [block["text"] for block in message["blocks"] if block["type"] == "markdown"]
    return str("\n".join(texts) if texts else message["text"])
