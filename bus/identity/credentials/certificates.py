"""Client certificates: a file that names the principal of each."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from config.errors import SettingInvalid
from config.identity.principal import NAME, Principal, Role
from config.settings import ROOT, Settings
from config.tls import server_context
from config.watched_files import WatchedFiles

log = logging.getLogger(__name__)


class CertificateRule(BaseModel):
    """One entry of the file: a name in a certificate, and whom it stands for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    certificate: str = Field(max_length=256, pattern=r"^(CN=|DNS:|URI:|email:).+$")
    """A name of the certificate: its subject's common name, or an alternative name."""
    principal: str = Field(pattern=rf"^{NAME}$")
    tenant: str = Field(default="default", pattern=rf"^{NAME}$")
    roles: frozenset[Role] = frozenset()

    @property
    def named(self) -> Principal:
        return Principal(tenant=self.tenant, id=self.principal, roles=self.roles)


RULES = TypeAdapter(list[CertificateRule])


@dataclass(frozen=True, kw_only=True, slots=True)
class CertifiedPrincipal:
    """Whom a certificate stands for, and the name by which it was found."""

    name: str
    principal: Principal


class CertificatePrincipals:
    """The rules of a file, read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = WatchedFiles(lambda: [path])
        changed = self._file.changed()
        self._rules = read_rules(path)
        self._file.mark_read(changed or ())

    def principal_of(self, certificate: Mapping[str, Any]) -> CertifiedPrincipal | None:
        """Return whom a verified certificate stands for, by the first rule that fits; None: no rule does."""
        self._renew()
        names = set(names_of(certificate))
        for rule in self._rules:
            if rule.certificate in names:
                return CertifiedPrincipal(name=rule.certificate, principal=rule.named)
        return None

    def names(self, name: str, principal: Principal) -> bool:
        """Return whether the rule by which a certificate was found still stands for this principal."""
        self._renew()
        return any(rule.certificate == name and rule.named == principal for rule in self._rules)

    def _renew(self) -> None:
        changed = self._file.changed()
        if changed is None:
            return
        try:
            self._rules = read_rules(self._path)
        except SettingInvalid as error:
            log.error("the former rules for client certificates stay in use: %s", error)
            if isinstance(error.__cause__, OSError):  # of this moment; the next request reads the file again
                return
        self._file.mark_read(changed)


@cache
def principals_in(path: Path) -> CertificatePrincipals:
    """Return the rules of a file, relative to the checkout; the same ones for all of this process.

    Raises:
        SettingInvalid: as ``read_rules``.
    """
    return CertificatePrincipals(ROOT / path)


def read_rules(path: Path) -> list[CertificateRule]:
    """Return the rules of a file, in order.

    Raises:
        SettingInvalid: it cannot be read, has another form, or names a certificate twice.
    """
    import yaml  # most commands read no rules

    try:
        rules = RULES.validate_python(yaml.safe_load(path.read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingInvalid(f"CALLBOARD_TLS_PRINCIPALS: {path} cannot be read: {error}. Correct the file.") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = ".".join(map(str, first["loc"])) or "the file"
        raise SettingInvalid(
            f"CALLBOARD_TLS_PRINCIPALS: {path}: {location}: {first['msg']}. Each entry is `certificate: CN=name` (or "
            "DNS:, URI:, email:) with `principal:`, and optionally `tenant:` and `roles:`."
        ) from error
    names = [rule.certificate for rule in rules]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        raise SettingInvalid(f"CALLBOARD_TLS_PRINCIPALS: {path} has two entries for {repeated}; remove one.")
    return rules


def names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names in a certificate, as ``ssl`` presents it; a subject with several common names has none."""
    common = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    if len(common) == 1:
        yield f"CN={common[0]}"
    for kind, value in certificate.get("subjectAltName", ()):
        if kind in ("DNS", "URI", "email"):
            yield f"{kind}:{value}"


def require_tls_files(settings: Settings) -> None:
    """Return if the files of TLS can be used, before anything starts.

    Raises:
        SettingInvalid: one cannot.
    """
    server_context(settings)
    if settings.tls_principals is not None:
        read_rules(ROOT / settings.tls_principals)
