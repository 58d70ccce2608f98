"""A provider's address that is a cloud's metadata service gets no request."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agents.models import http
from agents.models.call import ModelCall
from agents.models.errors import MODEL_REFUSED
from agents.models.http import require_base_here
from tests.agents.models.http.test_guard import MODELS, _failure

pytestmark = pytest.mark.filterwarnings("ignore:Item.* on TypedDict class:UserWarning")


@pytest.fixture(autouse=True)
def no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    http._passed.clear()
    lookup = socket.getaddrinfo

    def answers(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        addresses = {"gpu.example": "169.254.169.254", "169.254.169.254": None}
        if host in addresses:
            assert addresses[host] is not None, "it was about to connect"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (addresses[host], port))]
        return lookup(host, port, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answers)


@pytest.mark.parametrize("model", MODELS)
def test_no_provider_is_asked_there(model: str, call_of: Callable[..., ModelCall], run: Any) -> None:
    failure = _failure(run, call_of(model, api_base="http://169.254.169.254/v1"))

    assert failure.code == MODEL_REFUSED.code
    assert "metadata service" in str(failure)


def test_a_name_that_leads_there_is_refused(call_of: Callable[..., ModelCall], run: Any) -> None:
    failure = _failure(run, call_of("openai/gpt-test", api_base="http://gpu.example:8000/v1"))

    assert failure.code == MODEL_REFUSED.code
    assert "gpu.example is the address of a cloud's metadata service" in str(failure)


def test_the_operators_number_is_let_through(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    listed = settings.model_copy(update={"http_allowed_hosts": "169.254.169.254"})
    monkeypatch.setattr(http, "settings", lambda: listed)

    require_base_here(httpx.URL("http://169.254.169.254/v1"))


def test_a_host_is_looked_up_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []

    def note(url: str, allowed: Any) -> None:
        urls.append(url)

    monkeypatch.setattr(http, "require_operators_url_here", note)

    for path in ("/v1/a", "/v1/b?c=d", "/"):
        require_base_here(httpx.URL(f"https://api.example.org{path}"))
    require_base_here(httpx.URL("https://api.example.org:8443/"))

    assert urls == ["https://api.example.org/", "https://api.example.org:8443/"]
