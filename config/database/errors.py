"""Errors of the database: its schema, its files, and what a statement met."""

from __future__ import annotations

from config.errors import Permanent, Retryable


class InstallationMissing(Permanent):
    """The state folder has no database, and this command does not create one."""

    code = "installation_missing"
    status = 404


class StateDirUnwritable(Permanent):
    code = "state_dir_unwritable"
    status = 500
    public_text = "the server's state folder cannot be written to; the server's log says why."


class BackupFailed(Permanent):
    """No copy of the database was made; an existing file is unchanged."""

    code = "backup_failed"
    status = 500


class BackupExists(Permanent):
    """The file to write exists already."""

    code = "backup_exists"
    status = 409


class SchemaOld(Permanent):
    code = "schema_old"
    status = 503


class SchemaNew(Permanent):
    code = "schema_new"
    status = 503


class DatabaseUnreachable(Retryable):
    code = "database_unreachable"
    public_text = "the database does not answer the server, whose log says why; try again in a moment."


class DatabaseBusy(Retryable):
    code = "database_busy"
    public_text = "the database is busy; try again in a moment."


class DatabaseFull(Retryable):
    """The database has no space until a person makes room; nothing was changed."""

    code = "database_full"
    status = 507
    public_text = "the database is full and nothing was changed; make space on its disk and try again."


class DatabaseReadOnly(Retryable):
    """The database answers and accepts no writes; nothing was changed."""

    code = "database_read_only"
    public_text = (
        "the database can only be read and nothing was changed; its administrator has to allow writes, and the "
        "server's log says why."
    )


class DatabaseDamaged(Permanent):
    """The database's file or its server's data are damaged; a person has to restore a backup."""

    code = "database_damaged"
    status = 503
    public_text = "the database is damaged; its administrator has to stop Callboard and restore a backup."
