"""Errors of a channel's start."""

from __future__ import annotations

from config.errors import Permanent, Topic

CHANNEL_RUNNING = Permanent.row(
    "channel_running",
    "Another process serves the same channel from the same state folder.",
    text="another process has {path}; end it first, or give this one a state folder of its own (--state-dir).",
    status=500,
    topic=Topic.MACHINE,
    over_http=False,
    remedy="End the other process, or give this one a state folder of its own.",
)
CHANNEL_REFUSED = Permanent.row(
    "channel_refused",
    "The platform does not let the bot in.",
    text="{platform} refuses the bot: {problem}",
    topic=Topic.CONFIGURATION,
    over_http=False,
    remedy="The sentence says what to change at the platform, or in `config/channels.yaml`.",
)
PRINCIPAL_DIFFERS = Permanent.row(
    "principal_differs",
    "The key of a person in `config/channels.yaml` is another principal's.",
    text=(
        "{file}: {field}: the key is that of the principal {actual}, and the table says {expected}; "
        "write the other name, or another key."
    ),
    topic=Topic.CONFIGURATION,
    over_http=False,
    remedy="Correct the name or the key in the table.",
)
