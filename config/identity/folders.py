"""Folders of principals: the one place where the name of a tenant or a principal becomes a path."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from config.errors import Permanent, Topic
from config.identity.principal import LOCAL, NAME, NAME_FORM

_AGENT = r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}"


NAME_UNSAFE = Permanent.row(
    "name_unsafe",
    "The name of a tenant, a principal or an agent would become a path and is not a name.",
    topic=Topic.RUN,
    over_http=False,
    text="'{name:.80}' cannot be part of a path; it has to be {form}.",
    remedy="The run fails; rename the tenant or principal.",
)


def sandbox_folder(state: Path, tenant: str, principal: str, agent_id: str) -> Path:
    """Return the folder of an agent's files for one principal; it is not created.

    The local principal's is ``sandbox/TENANT/AGENT``, another's ``sandbox/TENANT/@PRINCIPAL/AGENT``. No agent's name
    begins with ``@``, so that neither is within the other.

    Raises:
        NAME_UNSAFE: a name is not one; nothing in it is decoded or normalised.
    """
    own = () if principal == LOCAL.id else (f"@{folder_name(principal)}",)
    return state.joinpath("sandbox", folder_name(tenant), *own, _agent_folder(agent_id))


def folder_name(name: str) -> str:
    """Return the folder of a tenant or a principal; names that differ by case alone have different ones anywhere.

    Raises:
        NAME_UNSAFE: it is not a name.
    """
    is_small = safe_name(name) == name.lower()
    return name if is_small else f"{name}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _agent_folder(agent_id: str) -> str:
    if re.fullmatch(_AGENT, agent_id) is None:
        raise NAME_UNSAFE(name=agent_id, form="the name of an agent's file without its ending")
    return agent_id


def safe_name(name: str) -> str:
    """Return the name if it is one.

    Raises:
        NAME_UNSAFE: it is not.
    """
    if re.fullmatch(NAME, name) is None:
        raise NAME_UNSAFE(name=name, form=NAME_FORM)
    return name
