"""The TLS context of a web process, made anew when its files have changed."""

from __future__ import annotations

import logging
import ssl
import time
from functools import partial

from config.errors import SettingInvalid
from config.settings import Settings
from config.tls import server_context, tls_files
from config.watched_files import WatchedFiles

log = logging.getLogger(__name__)

LOOK_S = 10.0
"""Seconds between two looks at the files."""


class Certificates:
    """Gives each new connection the current context; a renewed certificate needs neither a signal nor a restart."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._files = WatchedFiles(partial(tls_files, settings))
        changed = self._files.changed()
        self._context = server_context(settings)
        self._files.mark_read(changed or ())
        self._next_look = time.monotonic() + LOOK_S
        _made[_named(settings)] = self

    def context(self) -> ssl.SSLContext | None:
        """Return the context for a new connection, or None if this process serves plain HTTP."""
        if self._context is not None and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_S
            self.renew()
        return self._context

    def renew(self) -> None:
        """Use new files from now on if they fit each other."""
        changed = self._files.changed()
        if changed is None:
            return
        try:
            self._context = server_context(self._settings)
        except (SettingInvalid, OSError) as error:  # a renewal replaces one file after the other
            log.warning("the former certificate stays in use: %s", error)
            if not _is_of_this_moment(error):
                self._files.mark_read(changed)
            return
        self._files.mark_read(changed)
        log.info("certificate read again")


def _is_of_this_moment(error: BaseException) -> bool:
    """Return whether the system did not let this process read a file, so that a later look may succeed."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError)


_made: dict[tuple[object, ...], Certificates] = {}


def certificates_of(settings: Settings) -> Certificates:
    """Return the certificates of these settings, the same for all workers that one arbiter starts.

    So a worker that replaces another, after SIGHUP or a crash, starts with the former certificate where the new files
    cannot be used, and a session that one worker began is resumed on another.

    Raises:
        SettingInvalid: the files cannot be used, and never could.
    """
    certificates = _made.get(_named(settings))
    if certificates is None:
        return Certificates(settings)
    certificates.renew()
    return certificates


def _named(settings: Settings) -> tuple[object, ...]:
    return (*tls_files(settings), settings.tls_client_certificates)
