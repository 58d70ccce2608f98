"""The commands' tests run beside a temporary SQLite database, as those of the web process do."""

from tests.web.conftest import empty_database, journal, runner, settings

__all__ = ["empty_database", "journal", "runner", "settings"]
