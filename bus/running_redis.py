"""The Redis of the state folder, which `up` starts, where the settings name none."""

from __future__ import annotations

from config.redis.server import find_running
from config.settings import Settings


def with_running_redis(settings: Settings) -> Settings:
    """Return the settings; if they name no Redis, with the state folder's own if it answers."""
    running = find_running(settings.state) if settings.redis_url is None else None
    return settings if running is None else settings.model_copy(update={"redis_url": running})
