"""The token of an installation: who can read its file uses the page, on a machine with several users."""

from __future__ import annotations

import fcntl
import os

from bus.identity.credentials.key_form import random_text
from config.private_files import open_private, private_folder
from config.redaction import register_secrets
from config.settings import Settings

FILE = "local-token"
PREFIX = "cbl_"
CHARS = 40


def local_token(settings: Settings) -> str:
    """Return the installation's token, made when it is first needed, the same for all processes of the state folder.

    Raises:
        OSError: its file cannot be read or made, or is a symbolic link.
    """
    descriptor = open_private(private_folder(settings.state) / FILE)
    with os.fdopen(descriptor, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another process may be making it
        token = file.read().strip()
        if not token:
            token = PREFIX + random_text(CHARS)
            file.write(token + "\n")
    register_secrets([token])
    return token
