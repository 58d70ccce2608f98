"""The public keys of an issuer's set: one that cannot be used leaves the others usable."""

from __future__ import annotations

from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey

from web.jwt import public_keys

EC = ECKey.generate_key("P-256", {"kid": "ec"}).as_dict(private=False)
RSA = RSAKey.generate_key(2048, {"kid": "rsa"}).as_dict(private=False)
VALUES: list[Any] = [None, 5, 1.5, True, [], ["x" * 400], {}, "", "x", "x" * 400, "\ud800"]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
@pytest.mark.parametrize("name", ["n", "e", "kty", "alg", "key_ops"])
def test_a_key_with_a_field_of_another_type_leaves_the_others_usable(name: str, value: Any) -> None:
    keys = list(public_keys({"keys": [{**RSA, name: value}, EC]}))

    assert keys[-1].kid == "ec"


def test_a_short_rsa_key_is_none() -> None:
    assert list(public_keys({"keys": [{**RSA, "n": RSA["n"][:300]}]})) == []
