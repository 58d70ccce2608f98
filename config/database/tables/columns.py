"""What the tables share: names of constraints, types of columns."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, Integer, MetaData, String, text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Key = BigInteger().with_variant(Integer, "sqlite")
"""SQLite increments automatically only a column of exactly this type."""
Id = String(64)


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Return an index on the rows for which a condition of SQL holds."""
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))
