"""Alembic's entry: runs the revisions on the connection ``config.database.migrate`` opened and locked."""

from __future__ import annotations

from alembic import context

from config.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the caller's transaction is the one that counts
)
context.run_migrations()
