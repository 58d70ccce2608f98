"""Settings: where they come from, in which order, and what is said of one that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from config.errors import SettingInvalid
from config.redaction import redact
from config.settings import Settings, adopt_env_file, loader, read_settings, unknown_settings
from config.settings.loader import unknown_variables


def test_the_environment_goes_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_PORT", "9001")

    assert read_settings().port == 9001
    assert read_settings(port=9002).port == 9002


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "many"),
        ("PORT", "70000"),
        ("SLOTS", "0"),
        ("LOG_FORMAT", "xml"),
        ("DEPLOYMENT", "a b"),
        ("LEASE_S", "-1"),
    ],
)
def test_a_value_that_does_not_fit_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"CALLBOARD_{name}", value)

    with pytest.raises(SettingInvalid, match=f"CALLBOARD_{name} cannot be used"):
        read_settings()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, field in Settings.model_fields.items()
        if any(hasattr(constraint, "pattern") for constraint in field.metadata)
    ],
)
def test_the_form_of_a_value_is_said_in_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"CALLBOARD_{name.upper()}", "a b/c")

    with pytest.raises(SettingInvalid, match=f"CALLBOARD_{name.upper()} cannot be used .*: has to be ") as caught:
        read_settings()

    assert "pattern" not in str(caught.value)


def test_periods_that_contradict_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_BEAT_S", "10")

    with pytest.raises(SettingInvalid, match=r"^CALLBOARD_BEAT_S \(.*at most half of CALLBOARD_LEASE_S"):
        read_settings()


@pytest.mark.parametrize("overflow", ["1", "2"])
def test_a_pool_in_which_heartbeats_would_wait_for_readers_is_refused(
    monkeypatch: pytest.MonkeyPatch, overflow: str
) -> None:
    monkeypatch.setenv("CALLBOARD_DATABASE_POOL_SIZE", "4")
    monkeypatch.setenv("CALLBOARD_DATABASE_MAX_OVERFLOW", overflow)

    if overflow == "2":
        assert read_settings().database_max_overflow == 2
        return
    with pytest.raises(SettingInvalid, match=r"^CALLBOARD_DATABASE_POOL_SIZE \(4\).* at least 6 together"):
        read_settings()


def test_an_unknown_variable_is_reported_with_the_nearest_name() -> None:
    [sentence] = unknown_variables({"CALLBOARD_REDIS_ULR": "x", "CALLBOARD_PORT": "1", "HOME": "/"})

    assert "CALLBOARD_REDIS_ULR is not a setting. Did you mean 'CALLBOARD_REDIS_URL'?" in sentence


def test_a_name_unlike_all_others_is_reported_with_the_page_that_lists_them() -> None:
    [sentence] = unknown_variables({"CALLBOARD_FOO": "x"})

    assert sentence == "CALLBOARD_FOO is not a setting. docs/configuration.md lists the settings."


def test_an_unknown_name_in_a_file_is_reported_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("CALLBOARD_SLOTTS=7\nSHOP_URL=x\nCALLBOARD_SECRET_TILL_TOKEN=x\n")
    (tmp_path / "callboard.toml").write_text("prot = 9\nslots = 2\n[tenants.acme]\n")
    monkeypatch.setattr(loader, "ROOT", tmp_path)
    assert unknown_settings() == [], "the tests set CALLBOARD_NO_CONFIG"

    monkeypatch.delenv("CALLBOARD_NO_CONFIG")

    assert unknown_settings() == [
        "CALLBOARD_SLOTTS in .env is not a setting. Did you mean 'CALLBOARD_SLOTS'?",
        "prot in callboard.toml is not a setting. Did you mean 'port'?",
    ]


def test_a_file_that_is_not_toml_is_left_to_the_reading_of_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "callboard.toml").write_text("port 9")
    monkeypatch.setattr(loader, "ROOT", tmp_path)
    monkeypatch.delenv("CALLBOARD_NO_CONFIG")

    assert unknown_settings() == []


def test_names_of_earlier_systems_are_read_where_ours_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "earlier")
    monkeypatch.setenv("DATABASE_POOL_SIZE", "7")

    assert (read_settings().deployment, read_settings().database_pool_size) == ("earlier", 7)
    monkeypatch.setenv("CALLBOARD_DEPLOYMENT", "ours")
    assert read_settings().deployment == "ours"


@pytest.mark.parametrize(
    ("seed", "setting", "value"),
    [
        ("MCP_DATA_CLASSIFICATION", "DATA_CLASSIFICATION", "SECRET"),
        ("MCP_TOKEN_REF", "MCP_TOKEN_REF", "a\tb"),
        ("MCP_CAPABILITY_BEHAVIOR", "MCP_CAPABILITY_BEHAVIOR", "later"),
    ],
)
def test_a_value_of_an_earlier_systems_variable_is_refused_by_the_name_that_was_read(
    seed: str, setting: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(seed, value)

    with pytest.raises(SettingInvalid, match=f"^{seed}, read as CALLBOARD_{setting}, cannot be used"):
        read_settings()
    with pytest.raises(SettingInvalid, match=f"^CALLBOARD_{setting} cannot be used"):
        read_settings(**{setting.lower(): value})
    monkeypatch.setenv(f"CALLBOARD_{setting}", value)
    with pytest.raises(SettingInvalid, match=f"^CALLBOARD_{setting} cannot be used"):
        read_settings()


def test_a_file_goes_before_an_earlier_systems_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "callboard.toml").write_text('data_classification = "SECRET"')
    monkeypatch.setitem(Settings.model_config, "toml_file", tmp_path / "callboard.toml")
    monkeypatch.delenv("CALLBOARD_NO_CONFIG")
    monkeypatch.setenv("MCP_DATA_CLASSIFICATION", "PUBLIC")

    with pytest.raises(SettingInvalid, match=r"^CALLBOARD_DATA_CLASSIFICATION cannot be used"):
        read_settings()


def test_a_key_in_the_env_file_reaches_the_environment_and_never_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("SOME_API_KEY=from-file\nOTHER_API_KEY=from-file\nCALLBOARD_PORT=9\n")
    monkeypatch.setattr(loader, "ROOT", tmp_path)
    monkeypatch.delenv("CALLBOARD_NO_CONFIG")
    monkeypatch.delenv("SOME_API_KEY", raising=False)
    monkeypatch.setenv("OTHER_API_KEY", "from-environment")

    adopt_env_file()

    assert os.environ.pop("SOME_API_KEY") == "from-file"
    assert os.environ["OTHER_API_KEY"] == "from-environment"
    assert "CALLBOARD_PORT" not in os.environ


def test_the_files_can_be_left_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("CALLBOARD_SLOTS=7\nSOME_API_KEY=from-file\n")
    (tmp_path / "callboard.toml").write_text("port = 9\n")
    monkeypatch.setattr(loader, "ROOT", tmp_path)
    monkeypatch.setitem(Settings.model_config, "env_file", tmp_path / ".env")
    monkeypatch.setitem(Settings.model_config, "toml_file", tmp_path / "callboard.toml")
    monkeypatch.delenv("SOME_API_KEY", raising=False)
    assert os.environ["CALLBOARD_NO_CONFIG"] == "1", "as for every test"

    adopt_env_file()
    unread = read_settings()
    monkeypatch.delenv("CALLBOARD_NO_CONFIG")
    read = read_settings()

    assert "SOME_API_KEY" not in os.environ
    assert (unread.slots, unread.port) == (200, 8000)
    assert (read.slots, read.port) == (7, 9)


@pytest.mark.parametrize("name", ["REDIS_URL", "BROKER_URL"])
@pytest.mark.parametrize("value", ["localhost:6379", "localhost", "//:secret-word@host:6379"])
def test_an_address_without_its_scheme_is_refused_with_the_form_it_has(name, value, monkeypatch):
    monkeypatch.setenv(f"CALLBOARD_{name}", value)

    with pytest.raises(SettingInvalid, match=f"CALLBOARD_{name} cannot be used: .*redis://localhost:6379/0") as caught:
        read_settings()

    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize("value", ["redis://a:6379/0", "rediss://a", "unix:///run/a.sock?db=0", ""])
def test_an_address_of_a_redis_is_taken(value, monkeypatch):
    monkeypatch.setenv("CALLBOARD_REDIS_URL", value)

    assert read_settings().redis_url == (value or None)


SECRET = "0f1e2d3c4b5a6978" * 4


def test_keys_of_envelopes_are_read_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_ENVELOPE_KEYS", f"main:{SECRET}, old:{SECRET[::-1]}")
    monkeypatch.setenv("CALLBOARD_REQUIRE_ENVELOPE", "1")

    settings = read_settings(deployment="shop")

    assert settings.envelope_key_map == {"main": SECRET.encode(), "old": SECRET[::-1].encode()}
    assert settings.require_envelope
    assert settings.envelope_audience_of("acme") == "shop/acme"
    assert read_settings(envelope_audience="https://a.example").envelope_audience_of("b") == "https://a.example/b"
    assert SECRET not in f"{settings!r} {settings}"
    assert redact(f"the key is {SECRET}.") == "the key is [redacted]."


def test_the_earlier_names_of_envelopes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_ENVELOPE_HMAC_SECRET", SECRET)
    monkeypatch.setenv("MCP_REQUIRE_ENVELOPE", "true")

    settings = read_settings()

    assert (settings.envelope_key_map, settings.require_envelope) == ({"default": SECRET.encode()}, True)


@pytest.mark.parametrize("name", ["CALLBOARD_ENVELOPE_KEYS", "MCP_ENVELOPE_HMAC_SECRET"])
@pytest.mark.parametrize(
    "value", ["hush-hush", "main:hush-hush", " ", "main:", f"main:{'hush' * 8},", "hush hush " * 9]
)
def test_keys_of_envelopes_that_protect_nothing_are_refused_at_the_start(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(SettingInvalid, match=r"CALLBOARD_ENVELOPE_KEYS .*cannot be used") as caught:
        read_settings()

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("name", ["CALLBOARD_ENVELOPE_KEYS", "MCP_ENVELOPE_HMAC_SECRET"])
def test_envelopes_cannot_be_required_without_a_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_REQUIRE_ENVELOPE", "1")
    monkeypatch.setenv(name, "")

    with pytest.raises(SettingInvalid, match="CALLBOARD_REQUIRE_ENVELOPE needs CALLBOARD_ENVELOPE_KEYS"):
        read_settings()


def test_no_part_of_the_settings_replaces_a_validator_of_another() -> None:
    """pydantic takes the validators of base classes by their names, so that one of two alike would never run."""
    parts = [part for part in Settings.__mro__ if part.__module__.startswith("config.settings.")]
    names = [name for part in parts for name in vars(part)["__pydantic_decorators__"].field_validators]
    own = [name for part in parts for name in vars(part) if name in names]

    assert sorted({name for name in own if own.count(name) > 1}) == []


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("https://otlp.example.org/", "https://otlp.example.org/v1/traces"),
        ("https://otlp.example.org/own/path", "https://otlp.example.org/own/path"),
    ],
)
def test_the_address_of_the_collector_needs_no_path(url: str, address: str) -> None:
    assert read_settings(traces_url=url).traces_address == address


@pytest.mark.parametrize(
    "url", ["otlp.example.org", "http://otlp.example.org", "ftp://localhost", "http://u:p@localhost"]
)
def test_an_address_of_a_collector_that_would_give_traces_away_is_refused(url: str) -> None:
    with pytest.raises(SettingInvalid, match="CALLBOARD_TRACES_URL"):
        read_settings(traces_url=url)


def test_the_headers_for_the_collector_are_read_and_never_shown() -> None:
    settings = read_settings(traces_headers="x-key = abc%2Cdef-of-a-tenant, x-team=red,")

    assert settings.traces_header_map == {"x-key": "abc,def-of-a-tenant", "x-team": "red"}
    assert "abc" not in repr(settings)
    assert redact("it was abc,def-of-a-tenant") == "it was [redacted]"


@pytest.mark.parametrize("text", ["x-key", "a b=c", "x-key=a%0d%0ab", "=a", "x="])
def test_headers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(SettingInvalid, match="CALLBOARD_TRACES_HEADERS"):
        read_settings(traces_headers=text)
