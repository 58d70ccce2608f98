"""Plays the client in the suite's scenarios: an agent whose tools are those of the scenario's server calls them.

It is in the test's process, with the runner, the pool of sessions and the logins that a worker has.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socketserver
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import yaml

from agents.runner import Runner
from agents.tools.mcp.catalogue.listed import ServerTool
from agents.tools.mcp.catalogue.manifest import pinned_tools
from agents.tools.mcp.oauth.login import keep_login, log_in
from agents.tools.mcp.oauth.requests import OAuthAsker
from agents.tools.mcp.pool import mcp_pool
from agents.tools.mcp.tool_builder import mcp_tools
from bus.journal.approvals import Decision
from bus.loop import process_loop
from bus.payloads import StatusPayload
from bus.sealing import sealer_of
from config.definitions.errors import ToolUnknown
from config.definitions.mcp.server import McpServerDefinition, load_server
from config.egress.lookup import Resolver, resolve

SCENARIO_S = 50.0
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
"""The address that the suite expects; it asks nothing there."""
_WANTED_SCOPE = re.compile(r"wants the scope '([^']+)'")
_numbers = itertools.count(1)


class ScenarioAgent:
    """An agent with the tools of one scenario's server."""

    def __init__(self, runner: Runner, agents: Path, url: str, oauth: Mapping[str, Any] | None = None) -> None:
        self._runner, self._agents, self._url = runner, agents, url
        self.server = f"scenario{next(_numbers)}"
        self._file = runner.settings.mcp_servers_folders[0] / f"{self.server}.yaml"
        fields = {"url": url, "elicitation": "always"} | ({} if oauth is None else {"oauth": dict(oauth)})
        self._file.write_text(yaml.safe_dump(fields))
        agent = {"name": "Client", "model": "demo/assistant", "system_prompt": "x", "tools": [f"mcp:{self.server}"]}
        (agents / f"{self.server}.yaml").write_text(yaml.safe_dump(agent))
        self.scope = ""
        """What the last login was granted."""

    def with_scope(self, scope: str) -> ScenarioAgent:
        """Return an agent of the same server, whose file asks for these scopes."""
        return ScenarioAgent(self._runner, self._agents, self._url, {"scope": scope})

    def log_in(self) -> None:
        """Let a person sign in, whose browser is sent to and fro."""
        settings = self._runner.settings
        definition, sealer = load_server(self._file), sealer_of(settings)
        assert sealer is not None
        account = asyncio.run(log_in(definition, _browse, timeout_s=SCENARIO_S))
        keep_login(self._runner.journal.stores.mcp_logins, sealer, settings.tenant, definition, account, by="local")
        self.scope = account.tokens.scope or ""

    def close(self) -> None:
        """End the session: the scenario's server waits for that."""

        async def closed() -> None:
            sessions = [session for session in mcp_pool()._sessions if session.server.name == self.server]
            await asyncio.gather(*(session.life.close() for session in sessions))

        process_loop().run(closed(), SCENARIO_S)

    def tools(self) -> dict[str, Mapping[str, Any]]:
        """Return the tools' schemas by their names."""
        return {tool.name: tool.parameters for tool in mcp_tools(f"mcp:{self.server}", self._runner.settings)}

    def kept(self, name: str) -> ServerTool:
        """Return a tool's definition as it is stored."""
        self.tools()
        return pinned_tools(self.server, None)[name]

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return how a call ended: its result, or the sentence of its error.

        A person accepts every question, and fills nothing in but what has no default.
        """
        handle = self._runner.call_tool(name, arguments, agent_id=self.server)
        for event in handle.events():
            if isinstance(event, StatusPayload) and event.status == "waiting":
                for approval in handle.approvals():
                    handle.decide(approval["approval_id"], Decision(decision="answer", result={}))
        error = self._runner.journal.readers.runs.last_error(handle.run_id)
        return error.message if error is not None else str(handle.result(SCENARIO_S).output)

    def call_each(self) -> list[str]:
        """Call every tool, with an argument for each that it requires, and return how the calls ended."""
        values: dict[str, Any] = {"string": "a", "number": 1, "integer": 1, "boolean": True, "object": {}}
        ended = []
        for name, schema in self.tools().items():
            kinds = {field_name: str(field.get("type")) for field_name, field in schema["properties"].items()}
            ended.append(
                self.call(name, {field_name: values[kinds[field_name]] for field_name in schema.get("required", ())})
            )
        return ended


Context = Mapping[str, Any]
"""What a scenario tells its client."""


def list_tools(agent: ScenarioAgent, _context: Context) -> object:
    return agent.tools()


def call_each(agent: ScenarioAgent, _context: Context) -> object:
    return agent.call_each()


def call_as_named(agent: ScenarioAgent, context: Context) -> object:
    """Make the calls that the scenario names; a model leaves an argument out that would be null."""
    calls = [(call["name"], call["arguments"].items()) for call in context["toolCalls"]]
    return [
        agent.call(name, {key: value for key, value in arguments if value is not None}) for name, arguments in calls
    ]


def echo_schema(agent: ScenarioAgent, _context: Context) -> object:
    """Give the server's schema back as it is kept."""
    return agent.call("json_schema_echo", {"schema": agent.kept("json_schema_2020_12_tool").input_schema})


def log_in_and_call(agent: ScenarioAgent, _context: Context) -> object:
    """Sign in and call, and do what the calls' errors ask for: sign in again, or ask for more scopes first."""
    agent.log_in()
    try:
        ended = agent.call_each()
    except ToolUnknown as error:
        ended = [str(error)]
    if any("needs a login" in outcome for outcome in ended):
        agent.log_in()
        return agent.call_each()
    scope = next((match[1] for line in ended if (match := _WANTED_SCOPE.search(line))), None)
    if scope is None:
        return ended
    wider = agent.with_scope(f"{agent.scope} {scope}")
    try:
        wider.log_in()
        return wider.call_each()
    finally:
        wider.close()


PLAYED: Mapping[str, Callable[[ScenarioAgent, Context], object]] = {
    "initialize": list_tools,
    "request-metadata": list_tools,
    "http-custom-headers": call_as_named,
    "json-schema-2020-12-preservation": echo_schema,
    "auth/client-credentials-basic": call_each,
    "auth/client-credentials-jwt": call_each,
}


class ScenarioDriver:
    """Plays scenarios as ``relay.py`` asks for them."""

    def __init__(self, runner: Runner, agents: Path, secrets: Path) -> None:
        self._runner, self._agents, self._secrets = runner, agents, secrets

    @contextmanager
    def serving(self) -> Iterator[int]:
        """Yield the port."""
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler()) as server:
            server.daemon_threads = True
            serving = threading.Thread(target=server.serve_forever)
            serving.start()
            try:
                yield int(server.server_address[1])
            finally:
                server.shutdown()
                serving.join()

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        class ScenarioRequest(socketserver.StreamRequestHandler):
            def handle(request) -> None:  # noqa: N805  # the driver is the other one
                scenario = json.loads(request.rfile.readline())
                try:
                    answer = {"status": 0, "said": str(self._play(**scenario))}
                except Exception:
                    answer = {"status": 1, "said": traceback.format_exc()}
                request.wfile.write(json.dumps(answer).encode() + b"\n")

        return ScenarioRequest

    def _play(self, scenario: str, url: str, context: Context) -> object:
        is_of_auth = scenario.startswith("auth/")
        oauth = self._oauth(scenario, url, context) if is_of_auth else None
        agent = ScenarioAgent(self._runner, self._agents, url, oauth)
        try:
            return PLAYED.get(scenario, log_in_and_call if is_of_auth else call_each)(agent, context)
        finally:
            agent.close()

    def _oauth(self, scenario: str, url: str, context: Context) -> dict[str, Any]:
        """Return what the operator writes into the server's file."""
        if scenario == "auth/basic-cimd":
            return {"client_metadata_url": CLIENT_METADATA}
        credentials: dict[str, Any] = {}
        if "client_id" in context:
            credentials = {"client_id": context["client_id"], "issuer": _issuer(url)}
        for name, field in (("client_secret", "client_secret"), ("private_key_pem", "private_key")):
            if name in context:
                file = self._secrets / f"{scenario.replace('/', '-')}-{urlsplit(url).port}"
                file.write_text(context[name])
                credentials[field] = f"file:{file}"
        if "private_key" in credentials:
            credentials["signing_algorithm"] = context["signing_algorithm"]
        return credentials | ({"grant": "client_credentials"} if "client-credentials" in scenario else {})


class LocalAsker(OAuthAsker):
    """Takes every port of this machine for the operator's own: the suite has authorization servers there, unencrypted.

    A server's file would have to name them, and the scenarios are about how they are found.
    """

    def __init__(self, server: McpServerDefinition, resolver: Resolver = resolve) -> None:
        super().__init__(server, resolver)
        self._own = _LocalOrigins()


class _LocalOrigins(set[tuple[str, str, int]]):
    def __contains__(self, origin: object) -> bool:
        return isinstance(origin, tuple) and origin[1] == "localhost"


def _browse(url: str) -> None:
    threading.Thread(target=_visit, args=(url,), daemon=True).start()


def _visit(url: str) -> None:
    with suppress(httpx2.HTTPError):  # who waits for the browser need not wait for the end of its visit
        httpx2.get(url, follow_redirects=True)


def _issuer(url: str) -> str:
    """Return the authorization server, as the operator finds it in the documents of the server."""
    response = httpx2.get(url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"))
    return str(response.json()["authorization_servers"][0]).rstrip("/")
