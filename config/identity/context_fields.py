"""The forms of what settings say about contexts: one printable line each, and never a secret."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from config.effects import Classification
from config.identity.contexts import NAME, NAME_FORM
from config.identity.principal import Role
from config.redaction import redact
from config.text.names import did_you_mean
from config.text.visible import one_line

NO_ROLES = "none"
"""The setting of roles that leaves none."""


def _is_name(value: str) -> str:
    if not re.fullmatch(NAME, value):
        raise ValueError(NAME_FORM)
    return value


def _is_line(value: str, max_chars: int) -> str:
    if not value.isprintable() or value != value.strip() or not 1 <= len(value) <= max_chars:
        raise ValueError(
            f"has to be 1 to {max_chars} printable characters, without invisible ones, line ends and outer spaces"
        )
    return value


def _is_cost_center(value: str) -> str:
    return _is_line(value, 64)


def _is_initiator(value: str) -> str:
    return _is_line(value, 128)


def _is_reference(value: str) -> str:
    if not re.fullmatch(r"[!-~]{1,128}", value):
        raise ValueError("has to be 1 to 128 printable ASCII characters without spaces")
    if redact(value) != value:
        raise ValueError("is a secret; write the id or the name under which the credential is kept")
    return value


def _classification(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.upper() not in set(Classification):
        raise ValueError(f"has to be one of {', '.join(Classification)}")
    return Classification(value.upper())


ContextName = Annotated[str, AfterValidator(_is_name)]
CostCenter = Annotated[str, AfterValidator(_is_cost_center)]
InitiatorId = Annotated[str, AfterValidator(_is_initiator)]
TokenRef = Annotated[str, AfterValidator(_is_reference)]
DataClassification = Annotated[Classification, BeforeValidator(_classification)]


def roles_in(text: str) -> frozenset[Role]:
    """Return the roles that a setting names, ``,`` between them; ``none`` is no role.

    Raises:
        ValueError: a name is none of a role.
    """
    names = [name.strip() for name in text.split(",")]
    if names == [NO_ROLES]:
        return frozenset()
    for name in names:
        if name not in set(Role):
            hint = did_you_mean(name[:40], Role)
            raise ValueError(
                f"there is no role '{one_line(name[:40])}'.{hint} Roles are {', '.join(Role)}; '{NO_ROLES}' is none of "
                "them"
            )
    return frozenset(map(Role, names))
