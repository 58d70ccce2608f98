"""The settings of the servers that a deployment uses, and of its state folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from config.redis.url import REDIS_SCHEMES
from config.settings.sources import ROOT, Part

POOL_FLOOR = 6
"""Connections that a process needs at once: one writes, four read, and one is for what users wait for (a stop)."""


class ServerSettings(Part):
    """Part of ``Settings``."""

    redis_url: str | None = None
    """Redis of the hot log, and of Celery's queue unless ``broker_url`` is set. None: no Redis is used."""
    broker_url: str | None = None
    """Celery's broker; the default is the Redis URL."""
    database_url: str | None = None
    """SQLAlchemy URL; the default is SQLite in the state folder."""
    database_pool_size: int = Field(default=20, ge=1, le=500)
    """Connections a process keeps open to the database."""
    database_max_overflow: int = Field(default=10, ge=0, le=500)
    """Additional connections a process may open temporarily."""
    state_dir: Path = Path(".callboard")
    """Folder of the database, the socket, the logs and the sandbox."""
    deployment: str = Field(default="default", pattern=r"^[A-Za-z0-9_.-]{1,40}$")
    """Prefix of every Redis key, so that several deployments can share a server."""
    embedded: Literal["auto", "path", "wheel", "process"] = "auto"
    """Which Redis ``up`` starts without a URL: the first one found, the one on the PATH, the wheel's, or none."""
    trusted_network: bool = False
    """Whether the network to servers on other machines is private; the doctor then only warns of plain text."""

    @field_validator("redis_url", "broker_url", "database_url", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return value or None

    @field_validator("redis_url")
    @classmethod
    def _is_redis(cls, value: str | None) -> str | None:
        if value is not None and urlsplit(value).scheme not in REDIS_SCHEMES:
            raise ValueError("it has to begin with redis://, rediss:// or unix://, such as redis://localhost:6379/0")
        return value

    @field_validator("broker_url")
    @classmethod
    def _has_scheme(cls, value: str | None) -> str | None:
        if value is not None and "://" not in value:
            raise ValueError(
                "it has to begin with the broker's scheme, such as redis://localhost:6379/0 or amqp://host//"
            )
        return value

    @model_validator(mode="after")
    def _pool_is_large_enough(self) -> Self:
        pool = self.database_pool_size + self.database_max_overflow
        if pool < POOL_FLOOR:
            raise ValueError(
                f"CALLBOARD_DATABASE_POOL_SIZE ({self.database_pool_size}) and CALLBOARD_DATABASE_MAX_OVERFLOW "
                f"({self.database_max_overflow}) have to be at least {POOL_FLOOR} together, or heartbeats wait for "
                "readers and a healthy worker loses its runs"
            )
        return self

    @property
    def broker(self) -> str | None:
        """The URL of Celery's broker, or None: then no wake-up is published, and workers poll the database."""
        return self.broker_url or self.redis_url

    @property
    def state(self) -> Path:
        """The state folder, absolute."""
        return (ROOT / self.state_dir).resolve()

    @property
    def database(self) -> str:
        """The database's URL, with the default applied."""
        return self.database_url or f"sqlite:///{self.state / 'callboard.db'}"
