"""Which principal a certificate stands for: by exact names, in the order of the file, read again when it changes."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from bus.identity.credentials.certificates import CertificatePrincipals, names_of, read_rules
from config.errors import SettingInvalid
from config.identity.principal import Principal, Role

RULES = """\
- certificate: CN=billing
  principal: billing
  tenant: acme
  roles: [operator, viewer]
- certificate: "URI:spiffe://mesh/reports"
  principal: reports
- certificate: "DNS:billing.internal"
  principal: second
"""


def certificate(*names: str, alternatives: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """Return a certificate as ``ssl`` presents it."""
    return {"subject": tuple(((("commonName", name)),) for name in names), "subjectAltName": alternatives}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "principals.yaml").write_text(RULES)
    return tmp_path / "principals.yaml"


def test_a_rule_names_principal_tenant_and_roles(path: Path) -> None:
    principal = CertificatePrincipals(path).principal_of(certificate("billing"))

    assert principal is not None
    assert principal.name == "CN=billing"
    assert principal.principal == Principal(tenant="acme", id="billing", roles=frozenset({Role.OPERATOR, Role.VIEWER}))


def test_the_first_rule_that_fits_counts(path: Path) -> None:
    both = certificate("billing", alternatives=(("DNS", "billing.internal"),))
    second = certificate("other", alternatives=(("DNS", "billing.internal"), ("URI", "spiffe://mesh/x")))

    assert [CertificatePrincipals(path).principal_of(each).principal.id for each in (both, second)] == [  # type: ignore[union-attr]  # both are found
        "billing",
        "second",
    ]


@pytest.mark.parametrize(
    "presented",
    [
        certificate(),
        certificate("Billing"),
        certificate("billing "),
        certificate("billing.evil"),
        certificate("billing", "evil"),
        certificate("evil", alternatives=(("DNS", "billing"),)),
        certificate("evil", alternatives=(("URI", "DNS:billing.internal"),)),
        certificate("URI:spiffe://mesh/reports"),
        certificate("x", alternatives=(("DirName", "CN=billing"),)),
        {},
    ],
)
def test_nothing_else_fits(path: Path, presented: dict[str, Any]) -> None:
    assert CertificatePrincipals(path).principal_of(presented) is None


def test_a_subject_with_several_names_has_none() -> None:
    assert list(names_of(certificate("a", "b"))) == []


def test_a_changed_file_counts_at_once_and_a_broken_one_does_not(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    principals = CertificatePrincipals(path)

    def replace(text: str) -> None:
        new = path.with_suffix(".new")
        new.write_text(text)
        os.replace(new, path)

    replace(RULES.replace("tenant: acme", "tenant: other"))
    principal = principals.principal_of(certificate("billing"))
    assert principal is not None
    assert principal.principal.tenant == "other"
    with caplog.at_level(logging.ERROR):
        replace("- certificate: nonsense")
        assert principals.principal_of(certificate("billing")) == principal
        assert principals.principal_of(certificate("billing")) == principal
    assert len(caplog.records) == 1
    replace("[]")
    assert principals.principal_of(certificate("billing")) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- certificate: billing\n  principal: x", "0.certificate"),
        ("- certificate: CN=billing", "principal"),
        ("- certificate: CN=billing\n  principal: x\n  roles: [king]", "roles"),
        ("- certificate: CN=billing\n  principal: ../x", "principal"),
        ("- certificate: CN=billing\n  principal: x\n  verbs: [see]", "verbs"),
        ("certificate: CN=billing", "list"),
        ("- a: [", "cannot be read"),
        ("- {certificate: CN=a, principal: x}\n- {certificate: CN=a, principal: y}", "two entries for CN=a"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(path: Path, text: str, words: str) -> None:
    path.write_text(text)

    with pytest.raises(SettingInvalid, match="CALLBOARD_TLS_PRINCIPALS") as refused:
        read_rules(path)
    assert words in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingInvalid, match="cannot be read"):
        read_rules(tmp_path / "none.yaml")
