"""The database: engine, tables, migrations, timeouts, and the queue of writers to a SQLite file."""
