"""References to secrets, and the refusal of credentials in a definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.definitions import secrets
from config.definitions.errors import SECRET_MISSING
from config.definitions.secrets import REFERENCE, require_no_credentials, required_secret, resolve_secret
from config.redaction import REDACTED, redact
from config.settings import Settings
from config.settings.loader import unknown_variables
from tests.raising import raises


@pytest.fixture
def folder(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    chosen = settings.model_copy(update={"secrets_dir": str(tmp_path)})
    monkeypatch.setattr(secrets, "settings", lambda: chosen)
    return tmp_path


def test_a_name_is_looked_up_among_the_variables_and_then_among_the_files(folder):
    (folder / "till-token").write_text("value-of-the-file\n")

    assert resolve_secret("secret://till-token", {}) == "value-of-the-file"
    assert (
        resolve_secret("secret://till-token", {"CALLBOARD_SECRET_TILL_TOKEN": "of-the-variable"}) == "of-the-variable"
    )
    assert redact("value-of-the-file, of-the-variable") == f"{REDACTED}, {REDACTED}"


@pytest.mark.parametrize(
    "reference", ["secret://none", "env:NOT_SET_AT_ALL", "file:/nowhere/at/all", "secret://empty", "secret://folder"]
)
def test_a_reference_to_nothing_is_an_error_that_names_it(folder, reference):
    (folder / "empty").write_text(" \n")
    (folder / "folder").mkdir()

    with raises(SECRET_MISSING, match="TOKEN is not set for the worker") as caught:
        required_secret("TOKEN", reference)
    assert reference in str(caught.value)


@pytest.mark.parametrize(
    "reference",
    [
        "secret://",
        "secret://a/b",
        "secret://../etc/passwd",
        "secret://.x",
        "secret:x",
        "secret://a b",
        "sk-live-12345678",
    ],
)
def test_what_is_no_reference_is_refused(reference):
    assert REFERENCE.fullmatch(reference) is None


def test_the_variables_of_secrets_are_no_unknown_settings():
    assert unknown_variables({"CALLBOARD_SECRET_TILL_TOKEN": "x"}) == []


KEY = "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c"


@pytest.mark.parametrize("headers", ["headers", "extra_headers", "default_headers", "Headers"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "x"),
        ("proxy-authorization", "x"),
        ("x-api-key", "x"),
        ("X-Auth-Token", "x"),
        ("cookie", "x"),
        ("Ocp-Apim-Subscription-Key", "x"),
        ("X-Goog-Api-Key", "x"),
        ("x-secret", "x"),
        (" authorization ", "x"),
        ("X-Innocent", f"Bearer {KEY}"),
        ("X-Innocent", KEY),
        ("X-Innocent", "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12"),
        ("Authorization", "/x"),
        ("x-api-key", "./x"),
        ("X-Auth-Token", "~/x"),
        ("X-Innocent", f"/{KEY}"),
    ],
)
def test_a_credential_among_headers_is_refused(headers: str, name: str, value: str) -> None:
    with pytest.raises(ValueError, match="carries a credential") as caught:
        require_no_credentials({headers: {name: value}})

    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "params",
    [
        {"aws_secret_access_key": "x"},
        {"aws_session_token": "x"},
        {"azure_ad_token": "x"},
        {"token": "x"},
        {"vertex_credentials": '{"type": "service_account"}'},
        {"extra_body": {"api_key": "x"}},
        {"extra_query": {"api-key": "x"}},
        {"extra_body": {"a": [{"headers": {"Authorization": "x"}}]}},
        {"user": "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12"},
        {"extra_body": {"headers": {"x-token": "x"}}},
    ],
)
def test_a_credential_elsewhere_is_refused(params: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="carries a credential"):
        require_no_credentials(params)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0.3, "max_tokens": 100, "stop": ["token"], "prompt_cache_key": "abc", "top_p": 1},
        {
            "extra_headers": {
                "anthropic-beta": "fine-grained-tool-streaming-2025-05-14",
                "HTTP-Referer": "https://a.example",
            }
        },
        {"headers": {"X-Title": "Callboard", "OpenAI-Organization": "org-x", "Idempotency-Key": "a", "X-Author": "me"}},
        {"vertex_credentials": "/etc/keys/vertex.json", "aws_region_name": "eu-central-1"},
        {"azure_ad_token": "os.environ/AZURE_AD_TOKEN"},
        {"headers": {"Authorization": "os.environ/AUTHORIZATION"}},
        {"extra_body": {"tokens": 3, "thinking": {"type": "on"}}},
    ],
)
def test_what_is_no_credential_is_allowed(params: dict[str, object]) -> None:
    require_no_credentials(params)


@pytest.mark.parametrize("params", [{"headers": "x"}, {"extra_headers": {"a": 1}}, {"extra_headers": ["a"]}])
def test_headers_are_text_by_name(params: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="text"):
        require_no_credentials(params)
