"""Which values of a claim give which roles: ``fleet-admins=admin,support=operator``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from config.identity.principal import Role


def parse_mapping(text: str) -> Mapping[str, frozenset[Role]]:
    """Return the roles that each value gives.

    Raises:
        ValueError: a part is not ``value=role``, or names a role that does not exist.
    """
    mapping: dict[str, frozenset[Role]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        value, _, role = (word.strip() for word in part.rpartition("="))
        if not value or role not in set(Role):
            raise ValueError(f"'{part}' has to be a claim's value, '=' and a role: {', '.join(Role)}")
        mapping[value] = mapping.get(value, frozenset()) | {Role(role)}
    return mapping


def roles_of(claim: object, mapping: Mapping[str, frozenset[Role]]) -> frozenset[Role]:
    """Return the roles of a claim's values: a list, or a text with spaces between them. Other values give none."""
    values: Iterable[object] = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else ()
    return frozenset(role for value in values if isinstance(value, str) for role in mapping.get(value, ()))
