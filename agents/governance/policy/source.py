"""The policy of a process: read again where its files have changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agents.governance.policy.errors import PolicyInvalid
from agents.governance.policy.local import LocalPolicy
from agents.governance.policy.reading import files_of, read_policy
from config.definitions.errors import DefinitionUnreadable
from config.forks import after_fork
from config.watched_files import stamp_of

log = logging.getLogger(__name__)

_reading = threading.Lock()


@after_fork
def _renew() -> None:
    global _reading
    _reading = threading.Lock()


class PolicySource:
    """The files of a policy, and what was last read from them."""

    def __init__(self, places: Sequence[Path] = ()) -> None:
        """``places``: files and folders; none has the shipped rules alone."""
        self._places = tuple(places)
        self._seen: object = None
        self._logged = ""
        self._policy: LocalPolicy | None = None

    def current(self) -> LocalPolicy:
        """Return the policy of the files as they are now, or the last valid one while they are not.

        A policy that is edited into an invalid one does not stop the fleet; the log names the problem once.

        Raises:
            PolicyInvalid: the files cannot be used, and this process has read no valid ones.
        """
        with _reading:
            seen = self._state()
            if seen != self._seen or self._policy is None:
                self._read(seen)
            assert self._policy is not None
            return self._policy

    def read_ahead(self) -> None:
        """Read the files if they have changed, so that ``current`` need not do so within a transaction."""
        with suppress(PolicyInvalid):  # ``current`` raises it where it is of consequence
            self.current()

    def _read(self, seen: object) -> None:
        try:
            self._policy, self._seen, self._logged = read_policy(self._places), seen, ""
        except PolicyInvalid as error:
            if self._policy is None:
                raise
            if not isinstance(error.__cause__, DefinitionUnreadable | OSError):  # a valid edit may be behind that
                self._seen = seen
            if str(error) != self._logged:
                self._logged = str(error)
                log.error(
                    "the policy %s stays in force, since the edited one cannot be used: %s", self._policy.version, error
                )

    def _state(self) -> object:
        """Return what differs after an edit."""
        try:
            return [stamp_of(path) for path in files_of(self._places)]
        except (PolicyInvalid, OSError) as error:
            return str(error)
