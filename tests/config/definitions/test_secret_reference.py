from pathlib import Path

import pytest

from config.definitions import secret_reference
from config.definitions.errors import SECRET_MISSING
from config.definitions.secret_reference import REFERENCE, required_secret, resolve_secret
from config.redaction import REDACTED, redact
from config.settings import Settings, unknown_variables
from tests.raising import raises


@pytest.fixture
def folder(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    chosen = settings.model_copy(update={"secrets_dir": str(tmp_path)})
    monkeypatch.setattr(secret_reference, "settings", lambda: chosen)
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
