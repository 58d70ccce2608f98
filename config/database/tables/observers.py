"""The observers that tail the log: how far each has come, which processes feed it, and what it could not take.

And what the shipped one that counts has counted.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from config.database.tables.columns import Id, Key, metadata

observers = Table(
    "observers",
    metadata,
    Column("name", Id, primary_key=True),
    Column("class_path", Text, nullable=False),  # as the process that started last names it
    Column("delivery", String(16), nullable=False),  # critical, reliable or best_effort
    Column("selection_json", Text),  # which events it takes; NULL: all
    Column("paused", Boolean, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

observer_members = Table(  # the threads that feed an observer, each in one process
    "observer_members",
    metadata,
    Column("observer", Id, ForeignKey("observers.name", ondelete="CASCADE"), nullable=False),
    Column("id", Id, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", String(32), nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("observer", "id"),
)

observer_cursors = Table(
    "observer_cursors",
    metadata,
    Column("observer", Id, ForeignKey("observers.name", ondelete="CASCADE"), nullable=False),
    Column("partition", SmallInteger, nullable=False),  # of the runs, by the last character of their ids
    Column("position", Key, nullable=False),  # of the last row of the log that it has had
    Column("gaps_json", Text),  # earlier positions whose transactions may commit yet; NULL: none
    Column("owner", Id),  # the member that feeds it
    Column("delivered", BigInteger, nullable=False),
    Column("dropped", BigInteger, nullable=False),
    PrimaryKeyConstraint("observer", "partition"),
)

failed_deliveries = Table(
    "failed_deliveries",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("observer", Id, ForeignKey("observers.name", ondelete="CASCADE"), nullable=False),
    Column("partition", SmallInteger, nullable=False),
    Column("run_id", Id, nullable=False, index=True),
    Column("position", Key, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("type", String(16), nullable=False),
    Column("state", String(16), nullable=False),  # retrying: its run waits for it; dead: given up; again: to be fed
    Column("attempts", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("first_ms", BigInteger, nullable=False),
    Column("next_ms", BigInteger),  # when it is tried again; NULL: when a person says so
    UniqueConstraint("observer", "position"),
    Index(None, "observer", "state", "next_ms"),
)

metric_values = Table(  # what the metrics observer has counted, in the transactions that moved its cursors
    "metric_values",
    metadata,
    Column("name", String(64), nullable=False),
    Column("labels_json", String(600), nullable=False),  # names and values, as one JSON object
    Column("slot_ms", BigInteger, nullable=False),  # 0: since the beginning; else a minute from then, for a day
    Column("value", Float, nullable=False),
    PrimaryKeyConstraint("name", "labels_json", "slot_ms"),
    Index(None, "slot_ms"),
)
