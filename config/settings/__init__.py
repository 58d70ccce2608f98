"""The settings: ``CALLBOARD_…`` variables from the environment, ``.env`` or ``callboard.toml``.

Each part of ``Settings`` is a file here. This module is their interface.
"""

from config.settings.loader import adopt_env_file, read_settings, settings, unknown_settings
from config.settings.model import Settings
from config.settings.servers import QUEUE_NAME, QUEUE_NAME_FORM
from config.settings.sources import ROOT, SEED_NAMES, SEED_NAMES_UNREAD

__all__ = [
    "QUEUE_NAME",
    "QUEUE_NAME_FORM",
    "ROOT",
    "SEED_NAMES",
    "SEED_NAMES_UNREAD",
    "Settings",
    "adopt_env_file",
    "read_settings",
    "settings",
    "unknown_settings",
]
