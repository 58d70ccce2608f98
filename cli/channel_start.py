"""What the commands that serve a channel have in common: the file and the section of it, and the client on the path."""

from __future__ import annotations

import sys
from pathlib import Path

from cli import options
from config.definitions.errors import DefinitionInvalid
from config.errors import BadRequest
from config.folders import ROOT
from config.logs import configure_logging
from observers.channels.table import ChannelStart, load_channels

CLIENT = ROOT / "clients" / "python"
"""The client that this checkout has; its version fits the server's, an installed one may be older."""


def start_of(name: str, file: Path | None, state_dir: Path | None) -> ChannelStart:
    """Return what the process of a channel needs.

    Raises:
        BadRequest: there is no file.
        DefinitionInvalid: it cannot be read, or has no section of this name.
    """
    settings = options.apply(state_dir=state_dir)
    file = file or ROOT / "config" / "channels.yaml"
    if not file.exists():
        raise BadRequest(f"{file} does not exist; docs/channels.md shows what it has, --config names another one.")
    fields = load_channels(file)
    section = getattr(fields, name)
    if section is None:
        raise DefinitionInvalid(str(file), None, name, "is missing; docs/channels.md shows the section.")
    configure_logging(settings, name)
    sys.path.insert(0, str(CLIENT))
    return ChannelStart(name=name, file=file, server=fields.server, section=section, state=settings.state)
