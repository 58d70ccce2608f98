"""Which database the keys of a deployment in Redis belong to: two installations of one name take each other's wake-ups.

Each worker writes its database's id to Redis whenever it looks for work; the health and the doctor look for others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence

from bus.journal.live.signatures import SECRET_NAME
from bus.keys import Keys
from bus.redis_wire import Command
from config.database.engine import Database
from config.database.shared_secret import shared_secret

SEEN_MS = 30_000
"""How long a worker counts as at work: several of the pauses after which it looks again."""
KNOWN_MS = 24 * 3600 * 1000


def database_id(database: Database) -> str:
    """Return the id of a database, the same for each process that opens it.

    It is a digest of the secret that signs live events, whose readers have to agree on a database, too.

    Raises:
        DatabaseUnreachable, DatabaseBusy, DatabaseReadOnly, DatabaseFull: as ``shared_secret``.
    """
    return hashlib.sha256(shared_secret(database, SECRET_NAME).encode()).hexdigest()[:16]


def announcement(keys: Keys, own_id: str) -> list[Command]:
    """Return the commands that say for half a minute that workers of this database use the keys."""
    return [
        ("SADD", keys.databases, own_id),
        ("PEXPIRE", keys.databases, KNOWN_MS),
        ("SET", keys.database(own_id), "", "PX", SEEN_MS),
    ]


async def is_shared(keys: Keys, own_id: str, send: Callable[[Sequence[Command]], Awaitable[Sequence[object]]]) -> bool:
    """Return whether workers of another database use these keys now; False where Redis refuses to answer."""
    (members,) = await send([("SMEMBERS", keys.databases)])
    ids = [_text(member) for member in members] if isinstance(members, list | set) else []
    others = [keys.database(database_id) for database_id in ids if database_id != own_id]
    if not others:
        return False
    (seen,) = await send([("EXISTS", *others)])
    return isinstance(seen, int) and seen > 0


def _text(member: object) -> str:
    return member.decode() if isinstance(member, bytes) else str(member)
