import os
import socket
import stat

import pytest

from agents.models.auto import resolve_model
from bus.errors import POOL_REFUSED
from bus.identity.credentials.local_token import local_token
from cli.commands.worker import refuse_pool
from cli.supervisor.serving import (
    PORT_IN_USE,
    address_of,
    bind,
    open_page,
    page_address,
    require_loopback,
    web_environment,
    worker_command,
)
from config.egress.origins import is_loopback
from config.errors import SettingInvalid
from config.settings import Settings
from tests.raising import raises


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_is_served_unasked(settings, host):
    require_loopback(settings.model_copy(update={"host": host}))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.example.org", ""])
def test_other_machines_are_not(settings, host):
    assert not is_loopback(host)
    with pytest.raises(SettingInvalid, match="--no-auth"):
        require_loopback(settings.model_copy(update={"host": host}))
    require_loopback(settings.model_copy(update={"host": host, "no_auth": True}))


@pytest.mark.parametrize("changed", [{"host": "0.0.0.0"}, {"public_url": "https://calls.example"}], ids=["host", "url"])
def test_the_remedy_for_an_installation_with_a_token_is_one_that_works(settings, changed):
    local = settings.model_copy(update={"auth": "local", **changed})

    with pytest.raises(SettingInvalid, match="CALLBOARD_AUTH=none with --no-auth"):
        require_loopback(local)
    require_loopback(local.model_copy(update={"auth": "none", "no_auth": True}))


def test_a_public_url_needs_authentication_or_a_proxy_that_has_it(settings):
    public = settings.model_copy(update={"public_url": "https://calls.example"})

    with pytest.raises(SettingInvalid, match="CALLBOARD_PUBLIC_URL is https://"):
        require_loopback(public)
    require_loopback(public.model_copy(update={"no_auth": True}))
    require_loopback(public.model_copy(update={"auth": "required"}))
    for own in ("https://localhost:8443", "http://127.0.0.1:9000", "https://[::1]:8443"):
        require_loopback(settings.model_copy(update={"public_url": own}))


@pytest.mark.parity
def test_port_zero_is_a_free_one_and_the_address_says_which(settings):
    with bind(settings.model_copy(update={"port": 0}), "up") as listener:
        port = listener.getsockname()[1]
        for host, scheme, url_host in (
            ("127.0.0.1", "http", "127.0.0.1"),
            ("0.0.0.0", "http", "127.0.0.1"),
            ("::", "https", "[::1]"),
        ):
            certificate = "server.pem" if scheme == "https" else None
            chosen = settings.model_copy(update={"host": host, "tls_certificate": certificate})
            assert address_of(listener, chosen) == f"{scheme}://{url_host}:{port}"


def test_a_web_process_gets_no_key_of_a_provider_and_knows_what_there_is(settings, tmp_path, monkeypatch):
    (tmp_path / "odd.yaml").write_text("name: A\nmodel: openai/x\nsystem_prompt: B\napi_key_env: ODD_NAME\n")
    monkeypatch.setenv("OPENAI_API_KEY", "a-value-of-no-known-form")
    monkeypatch.setenv("ODD_NAME", "another-value-of-no-known-form")

    environment = web_environment(settings.model_copy(update={"agents_dir": str(tmp_path)}))

    assert "no-known-form" not in str(environment)
    assert resolve_model("auto", environment) == resolve_model("auto", os.environ)
    assert resolve_model("auto", environment) != "demo/assistant"
    assert environment["PATH"] == os.environ["PATH"]


def test_a_web_process_gets_the_secrets_of_webhooks_and_no_key_that_an_agent_names_too(settings, tmp_path, monkeypatch):
    (tmp_path / "odd.yaml").write_text("name: A\nmodel: openai/x\nsystem_prompt: B\napi_key_env: ODD_SECRET\n")
    (tmp_path / "webhooks").mkdir()
    for name in ("SHOP_SECRET", "ODD_SECRET"):
        monkeypatch.setenv(name, "a-value-of-no-known-form")
        text = f"format: github\nsecret: ${{{name}}}\nstart: {{agent: odd, input: x}}\n"
        (tmp_path / "webhooks" / f"{name}.yaml").write_text(text)
    chosen = {"agents_dir": str(tmp_path), "webhooks_dir": str(tmp_path / "webhooks")}

    environment = web_environment(settings.model_copy(update=chosen))

    assert environment["SHOP_SECRET"] == "a-value-of-no-known-form"
    assert "ODD_SECRET" not in environment


@pytest.mark.parity
def test_a_port_in_use_names_another(settings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with raises(PORT_IN_USE, match=f"./callboard web --port {port + 1}"):
            bind(settings.model_copy(update={"port": port}), "web")


@pytest.mark.parity
@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 300])
def test_a_host_that_is_not_ours_says_what_to_use(settings, host):
    with pytest.raises(SettingInvalid, match=r"127\.0\.0\.1"):
        bind(settings.model_copy(update={"host": host, "port": 0}), "up")


def test_the_pool_is_celerys_own_setting_unless_one_is_asked_for():
    assert "--pool" not in worker_command("worker-1", None)
    assert worker_command("worker-1", "solo")[-2:] == ("--pool", "solo")


def test_prefork_is_asked_for_by_the_name_celery_does_not_take_for_its_default():
    assert worker_command("worker-1", "prefork")[-2:] == ("--pool", "processes")


@pytest.mark.parametrize("pool", [None, "threads", "prefork", "solo"])
def test_pools_a_run_can_be_stopped_in_are_taken(pool):
    refuse_pool(pool)


@pytest.mark.parametrize("pool", ["gevent", "eventlet", "processes"])
def test_other_pools_are_refused_with_the_ones_there_are(pool):
    with raises(POOL_REFUSED, match="--pool threads"):
        refuse_pool(pool)


def test_a_browser_is_opened_without_the_token_on_its_command_line(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    local = settings.model_copy(update={"auth": "local"})
    page = page_address("http://127.0.0.1:8000", local)

    open_page(page, local)
    open_page(page_address("http://127.0.0.1:8000", settings), settings)

    file = settings.state / "open.html"
    assert opened == [file.as_uri(), "http://127.0.0.1:8000"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"url={page}" in file.read_text()
    assert local_token(local) in page
