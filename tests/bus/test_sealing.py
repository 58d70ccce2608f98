import os
import pickle
from base64 import b64encode

import pytest
from pydantic import SecretStr

from bus.sealing import Original, SealBroken, Sealer, SealKeyMissing, sealer_of
from config.errors import SettingInvalid
from config.redaction import REDACTED, redact
from config.settings import read_settings

FORMER, PRESENT = os.urandom(32), os.urandom(32)


def written(*keys: bytes) -> str:
    return ", ".join(b64encode(key).decode() for key in keys)


def test_what_is_sealed_is_unsealed_and_does_not_show():
    name, sealed = Sealer([PRESENT]).seal({"text": "sk-1234567890 é\ud7ff", "n": [1, None]}, "run_1\ninput")

    assert "sk-1234567890" not in sealed
    assert Sealer([PRESENT]).unseal(name, sealed, "run_1\ninput") == {"text": "sk-1234567890 é\ud7ff", "n": [1, None]}
    assert Sealer([PRESENT]).seal("a", "b")[1] != Sealer([PRESENT]).seal("a", "b")[1]


def test_after_a_rotation_the_former_key_unseals_and_the_present_one_seals():
    name, sealed = Sealer([FORMER]).seal("before", "run_1\ninput")
    both = Sealer([PRESENT, FORMER])

    assert both.unseal(name, sealed, "run_1\ninput") == "before"
    assert both.seal("after", "run_1\ninput")[0] != name
    with pytest.raises(SealKeyMissing, match=name) as caught:
        Sealer([PRESENT]).unseal(name, sealed, "run_1\ninput")
    assert pickle.loads(pickle.dumps(caught.value)).facts == {"key": name}


@pytest.mark.parametrize(
    "change", [lambda text: text[:-4] + "AAA=", lambda text: text[:20], lambda text: "!", lambda text: ""]
)
def test_what_was_changed_is_not_unsealed(change):
    sealer = Sealer([PRESENT])
    name, sealed = sealer.seal("text", "run_1\ninput")

    with pytest.raises(SealBroken):
        sealer.unseal(name, change(sealed), "run_1\ninput")
    with pytest.raises(SealBroken):
        sealer.unseal(name, sealed, "run_2\ninput")


def test_keys_come_from_the_settings_and_are_secrets(monkeypatch):
    monkeypatch.setenv("CALLBOARD_SEAL_KEYS", written(PRESENT, FORMER))
    settings = read_settings()

    sealer = sealer_of(settings)

    assert sealer is not None
    assert sealer.unseal(*Sealer([FORMER]).seal("text", "x"), "x") == "text"
    assert redact(f"key {written(PRESENT)}") == f"key {REDACTED}"
    assert written(PRESENT) not in repr(settings) + repr(Original(what="input", value="v" * 9, sealer=sealer))
    assert "vvv" not in repr(Original(what="input", value="vvv", sealer=sealer))


def test_without_keys_nothing_is_sealed(settings):
    assert sealer_of(settings) is None
    assert sealer_of(settings.model_copy(update={"seal_keys": SecretStr(" , ")})) is None


@pytest.mark.parametrize(
    "key",
    ["short", written(PRESENT[:16]), written(PRESENT) + "x", "é" * 44],
    ids=["short", "half", "longer", "no-ascii"],
)
def test_a_key_that_is_none_is_refused_without_showing_it(settings, key):
    with pytest.raises(SettingInvalid, match="openssl rand -base64 32") as caught:
        sealer_of(settings.model_copy(update={"seal_keys": SecretStr(key)}))
    assert key not in str(caught.value)
