"""Contexts: what settings may say of them, how a row keeps them, and what is read of a row that has something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from config.effects import Classification
from config.errors import SettingInvalid
from config.identity.contexts import (
    DeclaredContext,
    GoldenContext,
    SecurityContext,
    declared_for,
    memo,
    narrowed,
    reference_of,
    trace_id_of_run,
    working_for,
)
from config.identity.folders import NAME_UNSAFE, sandbox_folder
from config.identity.principal import Role
from config.settings import Settings, read_settings
from config.tracing import is_trace_id
from tests.raising import raises

SHOP = DeclaredContext(app_id="shop", environment="production")
WHOLE = DeclaredContext(
    app_id="shop",
    environment="production",
    cost_center="4711 Büro",
    data_classification=Classification.RESTRICTED,
    initiator_id="jürgen",
    token_ref="vault:till",
)
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("declared", [SHOP, WHOLE], ids=["shop", "whole"])
def test_a_row_keeps_what_was_declared(declared: DeclaredContext) -> None:
    assert DeclaredContext.from_json(declared.to_json()) == declared


UNREADABLE = [
    *("", "{", "null", "[]", '"x"', "{}", '{"app_id":"shop"}', '{"app_id":"shop","environment":7}'),
    *('{"app_id":"shop","environment":null}', '{"app_id":"","environment":"x"}', '{"app_id":"a b","environment":"x"}'),
    '{"app_id":"shop","environment":"x","data_classification":"TOP SECRET"}',
    '{"app_id":"shop","environment":"x\\n"}',
    '{"app_id":"shop","environment":"x","cost_center":["y"]}',
    f'{{"app_id":"shop","environment":"x","cost_center":"{"y" * 3000}"}}',
    "[" * 100_000,
    '{"app_id":"shop","environment":"\\ud800"}',
]


def test_what_is_no_context_is_none() -> None:
    assert [DeclaredContext.from_json(text) for text in UNREADABLE] == [None] * len(UNREADABLE)


def test_fields_of_a_later_release_are_left_out() -> None:
    assert DeclaredContext.from_json('{"app_id":"shop","environment":"production","region":"eu"}') == SHOP


def test_a_program_gets_both_by_the_names_of_the_design() -> None:
    security = SecurityContext(
        initiator_id="ann", roles=frozenset({Role.VIEWER, Role.ADMIN}), token_ref="key:key_1", trace_id=TRACE_ID
    )

    assert memo(WHOLE.golden("ann", TRACE_ID), security) == {
        "golden.context": {
            "app_id": "shop",
            "environment": "production",
            "initiator_id": "jürgen",
            "trace_id": TRACE_ID,
            "cost_center": "4711 Büro",
            "data_classification": "RESTRICTED",
        },
        "golden.securityContext": {
            "initiatorId": "ann",
            "roles": ["admin", "viewer"],
            "tokenRef": "key:key_1",
            "traceId": TRACE_ID,
        },
    }
    assert memo(None, None) == {}


def test_what_was_not_declared_is_the_principal_and_absent() -> None:
    assert SHOP.golden("ann", TRACE_ID) == GoldenContext(
        app_id="shop", environment="production", initiator_id="ann", trace_id=TRACE_ID
    )
    assert (reference_of("key", "key_1"), reference_of("process", ""), reference_of("service", None)) == (
        *("key:key_1", "process"),
        "service",
    )
    assert is_trace_id(trace_id_of_run("run_1"))
    assert trace_id_of_run("run_1") == trace_id_of_run("run_1") != trace_id_of_run("run_2")


def test_roles_are_only_narrowed() -> None:
    ours = frozenset({Role.VIEWER, Role.OPERATOR})

    assert narrowed(ours, None) == ours
    assert narrowed(ours, {Role.VIEWER, Role.ADMIN}) == {Role.VIEWER}
    assert narrowed(ours, frozenset()) == frozenset()


def test_a_context_is_that_of_its_tenant_and_ends() -> None:
    with working_for("acme", WHOLE):
        with working_for("acme", None):
            assert declared_for("acme") is None
        assert (declared_for("acme"), declared_for("other")) == (WHOLE, None)
    assert declared_for("acme") is None


# --- settings


def test_settings_declare_a_tenants_context_before_the_deployments() -> None:
    sections: Any = {"acme": {"cost_center": "A 1"}, "open": {"data_classification": "public"}}
    settings = read_settings(
        app_id="shop", deployment="eu-1", cost_center="0", data_classification="restricted", tenants=sections
    )

    assert settings.declared_context("acme") == DeclaredContext(
        app_id="shop", environment="eu-1", cost_center="A 1", data_classification=Classification.RESTRICTED
    )
    assert settings.declared_context("open").data_classification is Classification.PUBLIC
    assert settings.declared_context("other").cost_center == "0"
    assert read_settings().declared_context("x") == DeclaredContext(app_id="callboard", environment="default")


def test_an_empty_value_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    names = "APP_ID ENVIRONMENT COST_CENTER DATA_CLASSIFICATION MCP_INITIATOR_ID MCP_ROLES MCP_TOKEN_REF MCP_STATUS_URL"
    for name in names.split():
        monkeypatch.setenv(f"CALLBOARD_{name}", "")

    settings = read_settings()

    assert settings.declared_context("x") == DeclaredContext(app_id="callboard", environment="default")
    assert (settings.mcp_initiator_id, settings.mcp_role_set, settings.mcp_token_ref, settings.mcp_status_url) == (
        None,
    ) * 4


HOSTILE = [
    "a\nb",
    "a\r",
    "\t",
    "a\0b",
    "\x1b[31m",
    "\u202eevil",
    "\u2028",
    "\ud800",
    "a\U000e0041",
    " a",
    "a ",
    "\u200b",
]
BAD = {
    "app_id": [*HOSTILE, "a" * 65, "ä", "-a", ".", "a/b", "a b"],
    "environment": [*HOSTILE, "a" * 65, "prod uction"],
    "cost_center": [*HOSTILE, "a" * 65],
    "data_classification": [*HOSTILE, "SECRET", "PUBLIC,INTERNAL", "1"],
    "mcp_initiator_id": [*HOSTILE, "a" * 129],
    "mcp_roles": [*HOSTILE, "root", "viewer,", "viewer,none", "Admin", "viewer;admin", "*"],
    "mcp_token_ref": [
        *HOSTILE,
        "a" * 129,
        "ä",
        "sk-abcdefghijklmnopqrstuvwxyz",
        "cbk_0123456789abcdef0123",
        "Bearer abcdefgh1",
    ],
    "mcp_status_url": [
        "x",
        "ftp://a",
        "https://a?b=c",
        "https://u:p@a",
        "http://",
        "https://a b",
        "javascript:x",
        "http://a\n",
    ],
}


@pytest.mark.parity
def test_other_values_are_refused_by_name() -> None:
    wrong = [(name, value) for name, values in BAD.items() for value in values if refusing(name, value) != name]

    assert wrong == []


def refusing(name: str, value: str) -> str:
    """Return the setting that is refused, if one is."""
    try:
        Settings(**{name: value})  # type: ignore[arg-type]  # pydantic checks the values
    except ValidationError as error:
        return str(error.errors()[0]["loc"][0])
    return ""


def test_bytes_of_the_environment_that_are_no_text_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_CORS_ORIGINS", "a\udcff")

    with pytest.raises(SettingInvalid, match="CALLBOARD_CORS_ORIGINS cannot be used: it has to be UTF-8"):
        read_settings()


def test_the_sentence_shows_a_value_on_one_line_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value, expected in (
        (
            "MCP_COST_CENTER",
            "a\nlevel=error",
            r"MCP_COST_CENTER, read as CALLBOARD_COST_CENTER, cannot be used ('a\nlevel=error'): has to be 1 to",
        ),
        (
            "MCP_ROLES",
            "amdin",
            "there is no role 'amdin'. Did you mean 'admin'? Roles are viewer, operator, approver, admin",
        ),
        (
            "MCP_TOKEN_REF",
            "sk-abcdefghijklmnop",
            "MCP_TOKEN_REF, read as CALLBOARD_MCP_TOKEN_REF, cannot be used: is a secret;",
        ),
        ("MCP_DATA_CLASSIFICATION", "top", "has to be one of PUBLIC, INTERNAL, RESTRICTED"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            with pytest.raises(SettingInvalid) as caught:
                read_settings()
        assert expected in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "sk-abc" not in str(caught.value)


def test_names_of_the_design_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "MCP_APP_ID": "shop",
        "MCP_ENVIRONMENT": "production",
        "MCP_COST_CENTER": "CC-12",
        "MCP_DATA_CLASSIFICATION": "restricted",
        "MCP_INITIATOR_ID": "ann",
        "MCP_ROLES": "viewer, operator",
        "MCP_TOKEN_REF": "vault:till",
        "TEMPORAL_UI_URL": "http://localhost:8233/",
    }.items():
        monkeypatch.setenv(name, value)

    settings = read_settings()

    assert settings.declared_context("x") == DeclaredContext(
        app_id="shop", environment="production", cost_center="CC-12", data_classification=Classification.RESTRICTED
    )
    assert (settings.mcp_initiator_id, settings.mcp_token_ref, settings.mcp_status_url) == (
        *("ann", "vault:till"),
        "http://localhost:8233",
    )
    assert settings.mcp_role_set == frozenset({Role.VIEWER, Role.OPERATOR})
    monkeypatch.setenv("CALLBOARD_MCP_ROLES", "none")
    assert read_settings().mcp_role_set == frozenset()


@pytest.mark.parametrize(
    ("value", "programs", "engine"),
    [
        ("1", ("podman", "docker"), "podman"),
        ("true", ("docker",), "docker"),
        ("on", (), "podman"),
        ("0", ("podman",), ""),
        ("no", ("podman",), ""),
    ],
)
def test_the_switch_of_containers_names_an_engine(
    value: str, programs: tuple[str, ...], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name in programs else None)
    monkeypatch.setenv("ENABLE_DAGGER_E2E", value)

    assert read_settings().containers == engine


STATE = Path("/state")
UNSAFE = [
    *("", ".", "..", "../x", "a/b", "/etc", "a\\b", "~root", "a\0b", "a\nb", "a b", "%2e%2e", "..%2f", "@x", "-x"),
    *("x" * 65, "ä", "ｘ", "a\u202eb", "x~1", "x:y", "x\n"),
]


def test_the_local_principal_keeps_its_files() -> None:
    assert sandbox_folder(STATE, "default", "local", "assistant") == STATE / "sandbox/default/assistant"


def test_other_principals_have_folders_of_their_own() -> None:
    assert sandbox_folder(STATE, "acme", "ci", "assistant") == STATE / "sandbox/acme/@ci/assistant"
    assert sandbox_folder(STATE, "acme", "a@b.example", "x") == STATE / "sandbox/acme/@a@b.example/x"


@pytest.mark.parametrize("name", UNSAFE)
def test_what_is_no_name_is_no_path(name: str) -> None:
    for tenant, principal in ((name, "ci"), ("acme", name)):
        with raises(NAME_UNSAFE):
            sandbox_folder(STATE, tenant, principal, "assistant")


@pytest.mark.parametrize("agent_id", ["", ".", "..", ".hidden", "a/b", "@ci", "a\0", "x" * 65])
def test_an_agents_name_stays_within_its_principal(agent_id: str) -> None:
    with raises(NAME_UNSAFE):
        sandbox_folder(STATE, "default", "local", agent_id)


def test_names_that_differ_by_case_alone_have_folders_that_differ_by_more() -> None:
    folders = [str(sandbox_folder(STATE, "acme", name, "x")).lower() for name in ("ci", "CI", "Ci", "cI")]

    assert len(set(folders)) == len(folders)
