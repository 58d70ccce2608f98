"""No credential in an agent's params, under any name and at any depth."""

from __future__ import annotations

import pytest

from config.definitions.credentials import require_no_credentials

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
