"""The files of MCP servers: what they become, and what is refused with file, line and remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from config.definitions.errors import SECRET_MISSING, DefinitionInvalid
from config.definitions.loading import load_definition, pinned_definition
from config.definitions.mcp.server import load_server, read_servers
from config.egress.errors import RequestRefused
from tests.raising import raises

SERVER = "command: files-server\nargs: [--root, /srv]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def refused(folder: Path, text: str, name: str = "files.yaml") -> str:
    (folder / name).write_text(text)
    with pytest.raises(DefinitionInvalid) as caught:
        load_server(folder / name)
    return str(caught.value)


def test_a_server_has_its_files_name(folder: Path) -> None:
    (folder / "files.yaml").write_text(SERVER)

    server = load_server(folder / "files.yaml")

    assert (server.name, server.argv()) == ("files", ["files-server", "--root", "/srv"])
    assert server.includes("anything")


def test_a_file_beside_the_definition_is_meant_by_its_dot(folder: Path) -> None:
    (folder / "files.yaml").write_text("command: ./serve\nargs: [./rules.txt, a/b, .]\n")

    server = load_server(folder / "files.yaml")

    assert server.argv() == [str(folder / "serve"), str(folder / "rules.txt"), "a/b", "."]


@pytest.mark.parametrize(
    ("text", "error_text"),
    [
        ("args: [a]", "`command` or `url` is needed"),
        ("command: x\nurl: https://example.org/mcp", "and not both"),
        ("command: x\ncomand: y", "files.yaml:2: comand: there is no such field. Did you mean 'command'?"),
        ("command: [sh, -c, echo]", "files.yaml:1: command: has to be text"),
        ("command: x\nargs: -y", "files.yaml:2: args: has to be a list"),
        ("command: x\nheaders: {A: b}", "files.yaml:2: headers: `headers` is not for a server that is started"),
        ("url: https://example.org\nenv: {A: b}", "files.yaml:2: env: `env` is not for a server that is reached"),
        ("url: file:///etc/passwd", "url: "),
        ("url: http://user@example.org/", "user name or password"),
        ("url: https://example.org/?token=sk-aaaaaaaaaaaaaaaaaaaaaaaa", "carries a secret"),
        ("url: https://example.org\ntransport: websocket", "has to be 'http' or 'sse'"),
        ("url: https://example.org\nheaders: {Authorization: Bearer abcdefgh12345678}", "carries a credential"),
        ("url: https://example.org\nheaders: {Authorization: 'Bearer ${TOKEN}'}", "has no TOKEN"),
        ("url: https://example.org\nlimits: {files: 99}", "`limits` is not for a server that is reached by HTTP"),
        ("command: x\nlimits: {files: 1}", "files"),
        ("command: x\noauth: {}", "files.yaml:2: oauth: `oauth` is not for a server that is started"),
        ("url: http://example.org/mcp\noauth: {}", "files.yaml:1: url: `url` has to begin with https://"),
        (
            "url: https://example.org\noauth: {}\nsecrets: {T: env:T}\nheaders: {authorization: '${T}'}",
            "which `oauth` sets",
        ),
        ("url: https://example.org\noauth: {client: x}", "there is no such field. Did you mean 'client_id'?"),
        (
            "url: https://example.org\noauth: {grant: password}",
            "has to be 'authorization_code' or 'client_credentials'",
        ),
        ("url: https://example.org\noauth: {grant: client_credentials}", "`client_secret` or `private_key` is missing"),
        ("url: https://example.org\noauth: {client_secret: abcdefgh}", "and never the secret itself"),
        ("url: https://example.org\noauth: {client_secret: env:A}", "`client_id` is missing"),
        ("url: https://example.org\noauth: {client_id: a, client_secret: env:A}", "`issuer` is missing"),
        ("url: https://example.org\noauth: {issuer: 'javascript:x'}", "oauth.issuer"),
        ("url: https://example.org\noauth: {client_metadata_url: 'http://a.b/c'}", "https://"),
        ("url: https://example.org\noauth: {scope: 'a\"b'}", "oauth.scope"),
        ("command: x\nargs: [--key, sk-aaaaaaaaaaaaaaaaaaaaaaaa]", "files.yaml:2: args: carries a secret"),
        ("command: x\nenv: {API_KEY: abcdefghijkl}", "`API_KEY` holds a secret"),
        ("command: x\nenv: {CALLBOARD_AUTH: none}", "may not set CALLBOARD_AUTH"),
        ("command: x\nenv: {A: b}\nenv_from: [A]", "has A, which is also under"),
        ("command: x\nenv_from: [OPENAI_API_KEY]", "no server gets Callboard's own variables or a provider's key"),
        ("command: x\nenv_from: [CALLBOARD_DATABASE_URL]", "no server gets Callboard's own variables"),
        ("command: x\nenv_from: [SHOP_PASSWORD]", "named like a secret"),
        ("command: x\nenv_from: [PGPASSWORD]", "named like a secret"),
        ("command: x\nenv_from: [SHOP_PASS]", "named like a secret"),
        ("command: x\nenv_from: [MYSQL_PWD]", "named like a secret"),
        ("command: x\nenv: {PGPASSWORD: abcdefghijkl}", "`PGPASSWORD` holds a secret"),
        ("url: https://example.org/mcp?token=abcdefghijklmnop1234567890", "carries a secret"),
        ("command: x\nargs: ['https://example.org/mcp?key=abcdefghijklmnop1234567890']", "args: carries a secret"),
        ("command: x\nsecrets: {KEY: env:ANTHROPIC_API_KEY}", "no server gets a key of Callboard or of a provider"),
        ("command: x\nsecrets: {KEY: hunter2hunter2}", "and never the secret itself"),
        ("command: x\nincluded_tools: []", "at least 1"),
        ("command: x\nincluded_tools: ['a b']", "included_tools[0]"),
        (
            "command: x\nincluded_tools: [echo]\ntools: {ecko: {confirm: true}}",
            "files.yaml:3: tools: `tools` has ecko, which is not in `included_tools`; the nearest name there is 'echo'",
        ),
        ("command: x\nincluded_tools: [echo]\ntools: {pay: {}}", "`included_tools`; add it there, or remove it here."),
        ("command: x\nmax_bytes: 100", "max_bytes"),
        ("command: x\nname: 'my server'", "files.yaml:2: name: has to be letters, digits"),
        ("command: x\ncommand: y", "written twice"),
        ("- command", "has no fields; begin with `command: ...` or `url: ...`."),
        ("", "has no fields; begin with `command: ...` or `url: ...`."),
    ],
)
def test_what_is_wrong_is_said_with_its_line(folder: Path, text: str, error_text: str) -> None:
    assert error_text in refused(folder, text)


@pytest.mark.parametrize("name", ["my server.yaml", "9.yaml", "a.b.yaml", "ä.yaml", "x" * 33 + ".yaml", "a😀.yaml"])
def test_a_files_name_has_to_be_a_name(folder: Path, name: str) -> None:
    assert "the file's name is the server's" in refused(folder, SERVER, name)


def test_of_two_servers_with_one_name_neither_can_be_used(folder: Path) -> None:
    (folder / "a.yaml").write_text(SERVER + "name: files\n")
    (folder / "b.yaml").write_text(SERVER + "name: files\n")
    (folder / "c.yaml").write_text(SERVER)
    (folder / ".hidden.yaml").write_text("nonsense")

    servers, broken = read_servers([folder, folder / "missing"])

    assert list(servers) == ["c"]
    assert [f"{folder}/a.yaml" in str(error) and f"{folder}/b.yaml" in str(error) for error in broken] == [True]


def test_a_broken_file_costs_no_other_server(folder: Path) -> None:
    (folder / "a.yaml").write_text("command: 7\n")
    (folder / "b.yaml").write_text(SERVER)

    servers, broken = read_servers([folder])

    assert (list(servers), len(broken)) == (["b"], 1)


def test_it_gets_listed_variables_its_own_and_its_secrets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN_HERE", "a-token-of-the-shop")
    text = SERVER + "env: {MODE: fast}\nenv_from: [REGION]\nsecrets: {TOKEN: env:SHOP_TOKEN_HERE}\n"
    (folder / "files.yaml").write_text(text)
    worker = {"LANG": "C", "REGION": "north", "OPENAI_API_KEY": "x", "OTHER": "y"}

    environment = load_server(folder / "files.yaml").environment(worker)

    assert environment == {"LANG": "C", "MODE": "fast", "REGION": "north", "TOKEN": "a-token-of-the-shop"}


def test_variables_that_only_sound_like_secrets_may_be_named(folder: Path) -> None:
    (folder / "files.yaml").write_text(SERVER + "env_from: [PGHOST, PGPASSFILE, PWD, OLDPWD, COMPASS, PASSENGERS]\n")

    assert len(load_server(folder / "files.yaml").env_from) == 6


def test_headers_get_their_secrets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN_HERE", "a-token-of-the-shop \n")
    text = "url: https://example.org/mcp\nheaders: {Authorization: 'Bearer ${T}'}\nsecrets: {T: env:SHOP_TOKEN_HERE}\n"
    (folder / "web.yaml").write_text(text)

    assert load_server(folder / "web.yaml").filled_headers() == {"Authorization": "Bearer a-token-of-the-shop"}


@pytest.mark.parametrize("secret", ["sch\u00f6n-and-long", "one\r\nX-Other: two", "nul\x07and-long"])
def test_a_header_that_http_cannot_carry_is_named_without_its_value(
    folder: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("SHOP_TOKEN_HERE", secret)
    text = "url: https://example.org/mcp\nheaders: {X-Shop: 'Bearer ${T}'}\nsecrets: {T: env:SHOP_TOKEN_HERE}\n"
    (folder / "web.yaml").write_text(text)

    with pytest.raises(RequestRefused, match="MCP server web cannot be used: the value of the header X-Shop") as caught:
        load_server(folder / "web.yaml").filled_headers()

    assert not {"sch", "one", "nul"} & set(re.split(r"\W", str(caught.value)))


def test_a_secret_that_is_not_there_is_named(folder: Path) -> None:
    (folder / "files.yaml").write_text(SERVER + "secrets: {TOKEN: env:NO_SUCH_VARIABLE_HERE}\n")

    with raises(SECRET_MISSING, match="NO_SUCH_VARIABLE_HERE"):
        load_server(folder / "files.yaml").environment()


def written(folder: Path, server: Any, **fields: Any) -> Path:
    path = folder / "shopper.yaml"
    content = {"name": "S", "model": "auto", "system_prompt": "x", "mcp_server_definition": server, **fields}
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
    return path


@pytest.mark.parametrize(
    ("server", "tools"),
    [
        ({"name": "stripe"}, ("clock", "mcp:stripe")),
        ({"name": "stripe", "included_tools": ["a", "b.c"]}, ("clock", "mcp:stripe/a", "mcp:stripe/b.c")),
        ({"name": "stripe", "included_tools": []}, ("clock",)),
        (None, ("clock",)),
    ],
)
def test_it_means_lines_of_tools(tmp_path: Path, server: Any, tools: tuple[str, ...]) -> None:
    definition = load_definition(written(tmp_path, server, tools=["clock"]))

    assert definition.tools == tools
    assert pinned_definition("shopper", definition.digest, definition.content_json).tools == tools


@pytest.mark.parametrize(
    ("server", "error_text"),
    [
        ({"name": "stripe", "command": "uvx"}, "move it to config/mcp_servers/stripe.yaml"),
        ({"name": "stripe", "args": ["mcp-server-stripe"]}, "may not have `args`"),
        ({"name": "stripe", "env": {"STRIPE_API_KEY": "x"}}, "may not have `env`"),
        ({"name": "stripe", "url": "https://mcp.stripe.com"}, "may not have `url`"),
        ({"name": "stripe", "tools": []}, "has no field `tools`; its fields are name and included_tools"),
        ({"included_tools": ["a"]}, "needs the `name` of a server"),
        ({"name": "../stripe"}, "needs the `name` of a server"),
        ({"name": "stripe", "included_tools": "a"}, "has to be a list"),
        ({"name": "stripe", "included_tools": ["a b"]}, "has to be a list"),
        ("stripe", "has to be a mapping, for example `{name: stripe}`"),
    ],
    ids="command args env url unknown no-name bad-name text bad-tool no-mapping".split(),
)
def test_it_starts_nothing(tmp_path: Path, server: Any, error_text: str) -> None:
    with pytest.raises(DefinitionInvalid) as caught:
        load_definition(written(tmp_path, server))

    assert "shopper.yaml:5: mcp_server_definition: " in str(caught.value)
    assert error_text in str(caught.value)
