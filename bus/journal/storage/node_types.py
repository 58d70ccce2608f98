"""The table of the types of workflows' nodes."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from config.database.tables import node_types


def seed_node_types(connection: Connection) -> None:
    """Write a row for each type that this installation knows.

    A package's row stays when the package is gone, so that runs which wait for it say what they lack.
    """
    from config.definitions.workflows.node_types import known_types  # with CEL and templates; most runs need neither

    rows = [node_type.row() for node_type in known_types().values()]
    connection.execute(delete(node_types).where(node_types.c.name.in_([row["name"] for row in rows])))
    connection.execute(insert(node_types), rows)


def node_handlers(connection: Connection) -> Mapping[str, str]:
    """Return the handler of each type of node, by the type's name; a package's may have no row yet."""
    from config.definitions.workflows.node_types import known_types

    installed = {node_type.name: node_type.handler for node_type in known_types().values()}
    return installed | {row.name: row.handler for row in connection.execute(_HANDLERS)}


_HANDLERS = select(node_types.c.name, node_types.c.handler)
