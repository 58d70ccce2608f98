"""When the built tools of an agent are no longer those that its MCP servers' accepted definitions say."""

from __future__ import annotations

from collections.abc import Iterable

from agents.tools.mcp import PREFIX

Accepted = tuple[tuple[str, str, str], ...]
"""A server, a tool and the digest of the definition that a person accepted for it, of each such tool."""


def accepted_by_persons(paths: Iterable[str]) -> Accepted:
    """Return the definitions in force that are not the first ones, of the servers that an agent's ``tools`` name.

    They are read for each run, so a definition that is accepted in one worker reaches the models of all at the next
    run. What is seen first needs no renewal: the tools are built from it.
    """
    servers = {path.removeprefix(PREFIX).partition("/")[0] for path in paths if path.startswith(PREFIX)}
    if not servers:
        return ()
    from agents.process import opened_process  # imports the registry, which imports the catalogue

    process = opened_process()
    return process.journal.mcp_manifests.accepted(servers) if process is not None else ()
