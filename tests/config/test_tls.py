"""Certificate and key files that cannot be used end a command with a sentence that names the setting."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from config.errors import SettingInvalid
from config.redaction import redact
from config.settings import Settings, read_settings
from config.tls import server_context
from tests.certificates import Authority, Pair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("server")


def with_tls(settings: Settings, certificate: Path | None, key: Path | None, **others: object) -> Settings:
    return settings.model_copy(update={"tls_certificate": certificate, "tls_key": key, **others})


def refusal(settings: Settings) -> str:
    with pytest.raises(SettingInvalid) as refused:
        server_context(settings)
    return str(refused.value)


def test_without_a_certificate_there_is_no_context(settings: Settings) -> None:
    assert server_context(settings) is None


def test_nothing_older_than_tls_1_3_is_spoken(settings: Settings, pair: Pair) -> None:
    context = server_context(with_tls(settings, pair.certificate, pair.key))

    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode == ssl.CERT_NONE


def test_the_key_may_be_in_the_certificates_file(settings: Settings, pair: Pair) -> None:
    pair.key.write_text(pair.key.read_text() + pair.certificate.read_text())

    assert server_context(with_tls(settings, pair.key, None)) is not None


def test_a_missing_file_is_named(settings: Settings, pair: Pair, tmp_path: Path) -> None:
    none = tmp_path / "none.pem"

    assert refusal(with_tls(settings, none, pair.key)).startswith(f"{none} of CALLBOARD_TLS_CERTIFICATE does not exist")
    without_key = refusal(with_tls(settings, pair.certificate, none))
    assert f"{none} of CALLBOARD_TLS_KEY does not exist" in without_key
    assert redact(without_key) == without_key  # else the terminal shows `[redacted]` in place of the path
    assert f"{none} of CALLBOARD_TLS_CLIENT_CA does not exist" in refusal(
        with_tls(settings, pair.certificate, pair.key, tls_client_ca=none)
    )


def test_a_certificate_without_a_key_names_the_setting_of_the_key(settings: Settings, pair: Pair) -> None:
    pair.certificate.chmod(0o644)

    assert "no key; name the key's file in CALLBOARD_TLS_KEY" in refusal(with_tls(settings, pair.certificate, None))


def test_a_folder_cannot_be_read(settings: Settings, pair: Pair, tmp_path: Path) -> None:
    assert "cannot be read (Is a directory)" in refusal(with_tls(settings, tmp_path, pair.key))


def test_a_key_of_another_certificate_is_refused(settings: Settings, authority: Authority, pair: Pair) -> None:
    other = authority.issue("other")

    assert "belongs to another certificate" in refusal(with_tls(settings, pair.certificate, other.key))


def test_a_key_that_every_user_can_read_is_refused(settings: Settings, pair: Pair) -> None:
    pair.key.chmod(0o644)

    assert f"`chmod o= {pair.key}`" in refusal(with_tls(settings, pair.certificate, pair.key))


def test_an_encrypted_key_is_refused_instead_of_asking_for_its_password(settings: Settings, pair: Pair) -> None:
    pair.key.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")

    assert "is encrypted; decrypt it" in refusal(with_tls(settings, pair.certificate, pair.key))


@pytest.mark.parametrize("text", ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_files_that_are_no_pem_are_refused(settings: Settings, pair: Pair, text: str) -> None:
    pair.certificate.write_text(text)

    assert "not a certificate and a key in PEM form" in refusal(with_tls(settings, pair.certificate, pair.key))
    pair.key.write_text(text)
    assert "not a certificate and a key in PEM form" in refusal(with_tls(settings, pair.certificate, pair.key))


def test_a_ca_file_without_a_certificate_is_refused(settings: Settings, pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")

    message = refusal(with_tls(settings, pair.certificate, pair.key, tls_client_ca=tmp_path / "ca.pem"))

    assert "CALLBOARD_TLS_CLIENT_CA" in message


@pytest.mark.parametrize(("setting", "verify_mode"), [("required", "CERT_REQUIRED"), ("optional", "CERT_OPTIONAL")])
def test_client_certificates_are_asked_for(
    settings: Settings, authority: Authority, pair: Pair, setting: str, verify_mode: str
) -> None:
    chosen = {"tls_client_ca": authority.certificate, "tls_client_certificates": setting}

    context = server_context(with_tls(settings, pair.certificate, pair.key, **chosen))

    assert context is not None
    assert context.verify_mode == ssl.VerifyMode[verify_mode]
    assert context.num_tickets == 0


@pytest.mark.parametrize("name", ["tls_key", "tls_client_ca", "tls_principals"])
def test_a_setting_without_the_one_it_needs_is_refused(name: str) -> None:
    with pytest.raises(SettingInvalid, match=f"CALLBOARD_{name.upper()} needs CALLBOARD_TLS_"):
        read_settings(**{name: "x.pem"})
