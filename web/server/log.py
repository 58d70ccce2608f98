"""gunicorn's own log in the format of Callboard's: its times in UTC, its lines JSON where that is configured."""

from __future__ import annotations

from typing import Any

from gunicorn import glogging

from config.logs import line_format
from config.settings import settings


class ServerLog(glogging.Logger):  # type: ignore[misc]  # gunicorn has no types
    """The log of arbiter and workers."""

    def setup(self, cfg: Any) -> None:
        """Open the log; gunicorn calls it at the start and after a reload of the configuration."""
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(line_format(settings(), "web"))
