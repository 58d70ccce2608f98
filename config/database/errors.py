"""Errors of the database: its schema, its files, and what a statement met."""

from __future__ import annotations

from config.errors import Permanent, Retryable, Topic

INSTALLATION_MISSING = Permanent.row(
    "installation_missing",
    "The state folder has no database, and the command only reads.",
    status=404,
    topic=Topic.MACHINE,
    over_http=False,
    remedy="Correct `--state-dir`, or start `./callboard up`.",
)

STATE_DIR_UNWRITABLE = Permanent.row(
    "state_dir_unwritable",
    "The state folder cannot be written to.",
    status=500,
    topic=Topic.MACHINE,
    public_text="the server's state folder cannot be written to; the server's log says why.",
    remedy="Use another `--state-dir`, or change the folder's rights.",
)

BACKUP_FAILED = Permanent.row(
    "backup_failed",
    "The database could not be copied; nothing was written.",
    status=500,
    topic=Topic.MACHINE,
    remedy="The sentence says what is missing.",
)

BACKUP_EXISTS = Permanent.row(
    "backup_exists",
    "The backup file exists already, or is the database itself.",
    status=409,
    topic=Topic.MACHINE,
    remedy="Use another name, or `--force`.",
)


class SchemaOld(Permanent):
    """The database is older than this code, or empty."""

    code = "schema_old"
    status = 503
    topic = Topic.MACHINE
    retryable = True
    remedy = "Run `./callboard migrate`."


class SchemaNew(Permanent):
    """The database is newer than this code."""

    code = "schema_new"
    status = 503
    topic = Topic.MACHINE
    retryable = True
    remedy = "Update the code on this machine."


class DatabaseUnreachable(Retryable):
    """The database does not answer."""

    code = "database_unreachable"
    topic = Topic.MACHINE
    remedy = "Start it, or correct the URL."
    public_text = "the database does not answer the server, whose log says why; try again in a moment."


STATE_DIR_GONE = DatabaseUnreachable.row(
    "state_dir_gone",
    "The database's file was deleted, moved or replaced while processes had it open: what they write would be lost.",
    text=(
        "the database {file} that this process opened is no longer at its path, so nothing is accepted. Move it "
        "back, or stop every process and start Callboard again, which begins with the folder as it is then."
    ),
    public_text="the server's state folder is gone, so nothing is accepted; its administrator has to put it back.",
    remedy=(
        "Move the state folder back and work continues; if it is deleted, "
        "[save what the processes still hold](operations.md#the-state-folder-was-deleted), and start again."
    ),
)


class DatabaseBusy(Retryable):
    """The database is locked, or every connection is in use."""

    code = "database_busy"
    topic = Topic.MACHINE
    remedy = "Try again in a moment."
    public_text = "the database is busy; try again in a moment."


class DatabaseFull(Retryable):
    """The database's disk is full; nothing was changed."""

    code = "database_full"
    status = 507
    topic = Topic.MACHINE
    remedy = "Free space on it."
    public_text = "the database is full and nothing was changed; make space on its disk and try again."


class DatabaseReadOnly(Retryable):
    """The database is read-only (rights, a standby, its administrator); nothing was changed."""

    code = "database_read_only"
    topic = Topic.MACHINE
    remedy = "Grant this user write access, or name the primary."
    public_text = (
        "the database can only be read and nothing was changed; its administrator has to allow writes, and the "
        "server's log says why."
    )


class DatabaseDamaged(Permanent):
    """The database's file or its server's data are damaged."""

    code = "database_damaged"
    status = 503
    topic = Topic.MACHINE
    retryable = True
    remedy = "Stop Callboard, keep a copy, restore a [backup](operations.md#backup)."
    public_text = "the database is damaged; its administrator has to stop Callboard and restore a backup."
