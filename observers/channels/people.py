"""Who a person of a platform is here: a principal with a key of its own, a guest, or a stranger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from callboard_client import AsyncCallboard, CallboardError, RequestRefused, Timeouts
from config.definitions.errors import DefinitionInvalid
from observers.channels.errors import PRINCIPAL_DIFFERS
from observers.channels.table import ChannelFields, secret_of

log = logging.getLogger(__name__)

TIMEOUTS = Timeouts(connect_s=3.0, answer_s=30.0, retry_s=3.0, resume_s=60.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Speaker:
    """A principal that a person of the platform acts as."""

    principal: str
    callboard: AsyncCallboard
    """A client with that principal's key."""
    decides: str
    """``own``, ``all`` or ``none``."""
    field: str
    """Where the table has it, for messages."""


class People:
    """The table of one channel. A key whose principal was not compared with it is not used."""

    def __init__(self, people: Mapping[str, Speaker], guest: Speaker | None, file: str) -> None:
        self._people, self._guest, self._file = people, guest, file
        self._compared: set[str] = set()

    @classmethod
    def of(cls, file: Path, platform: str, fields: ChannelFields, connect: Callable[[str], AsyncCallboard]) -> People:
        """Return the people of a platform's section; ``connect`` returns a client with a key.

        Raises:
            DefinitionInvalid: a key is not there.
        """

        def person_of(field: str, principal: str, key: str, decides: str) -> Speaker:
            callboard = connect(secret_of(file, f"{field}.key", key))
            return Speaker(principal=principal, callboard=callboard, decides=decides, field=field)

        people = {
            user_id: person_of(f"{platform}.people.{user_id}", entry.principal, entry.key, entry.decides)
            for user_id, entry in fields.people.items()
        }
        guest = fields.guest
        if guest is None:
            return cls(people, None, str(file))
        return cls(people, person_of(f"{platform}.guest", guest.principal, guest.key, "none"), str(file))

    def known(self, user_id: str) -> Speaker | None:
        """Return the person whom the table has."""
        return self._people.get(user_id)

    def deciders(self, asker: str) -> list[tuple[str, Speaker]]:
        """Return the persons who may answer the questions of a person's runs, as far as the table says."""
        persons = self._people.items()
        return [each for each in persons if each[1].decides == "all" or (each[1].decides == "own" and each[0] == asker)]

    def speaker(self, user_id: str) -> Speaker | None:
        """Return as whom this person may talk; None: a stranger that is refused."""
        return self._people.get(user_id) or self._guest

    async def compare_all(self) -> None:
        """Compare each key's principal with the table; a server that does not answer is compared with later.

        Raises:
            PRINCIPAL_DIFFERS: a key is another principal's.
            DefinitionInvalid: the server does not know a key.
        """
        everyone = [*self._people.values(), *([self._guest] if self._guest else [])]
        results = await asyncio.gather(*map(self.compare, everyone), return_exceptions=True)
        for person, error in zip(everyone, results, strict=True):
            if isinstance(error, RequestRefused) and not error.retryable:
                problem = f"the server refuses the key: {error.detail} ({error.code})"
                raise DefinitionInvalid(self._file, None, f"{person.field}.key", problem) from error
            if isinstance(error, CallboardError):
                problem = str(error).replace("base_url", "`server` in the file")
                log.warning("a key could not be compared yet", extra={"field": person.field, "problem": problem})
            elif error is not None:
                raise error

    async def compare(self, person: Speaker) -> None:
        """Return once it is known that the person's key is the principal's of the table.

        Raises:
            PRINCIPAL_DIFFERS, RequestRefused, Unreachable: it is not, or that is not known.
        """
        if person.field in self._compared:
            return
        me = await person.callboard.me()
        if me.principal != person.principal:
            facts = {"file": self._file, "field": person.field, "actual": me.principal, "expected": person.principal}
            raise PRINCIPAL_DIFFERS(**facts)
        self._compared.add(person.field)

    async def close(self) -> None:
        """Close the connections."""
        for person in [*self._people.values(), *([self._guest] if self._guest else [])]:
            await person.callboard.aclose()
