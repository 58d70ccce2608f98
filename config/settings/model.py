"""All settings, made of their parts; here are those of the web process's address, of TLS, of proxies and of origins."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from config.egress.origins import is_origin, listed, networks_in, origin_of
from config.settings.agents import AgentSettings
from config.settings.limits import LimitSettings
from config.settings.servers import WorkerSettings

DEVELOPMENT_ORIGIN = "http://localhost:5173"
"""Of a page that Vite serves while it is developed."""


class NetworkSettings(LimitSettings):
    """Part of ``Settings``."""

    host: str = "127.0.0.1"
    """Address the web process binds to."""
    port: int = Field(default=8000, ge=0, le=65535)
    """TCP port of the web process; 0 picks a free one."""
    allowed_hosts: str = ""
    """Comma-separated host names accepted besides loopback (used with ``auth=required`` or ``no_auth``)."""
    request_timeout_s: float = Field(default=30.0, ge=3, le=600)
    """Seconds from the last byte of a request until it is given up, without what its client asks to wait."""
    public_url: str | None = None
    """The origin that users see, such as ``https://callboard.example.org``, where a proxy or a port mapping changes
    it."""
    trusted_proxies: str = ""
    """Comma-separated addresses and networks of proxies whose X-Forwarded headers count; ``unix`` for unix sockets."""
    trusted_proxy_count: int = Field(default=1, ge=1, le=10)
    """Proxies between clients and this server, each of which appends to the X-Forwarded headers."""
    tls_certificate: Path | None = None
    """PEM file of the certificate and its intermediates; the web process then serves TLS 1.3. None: plain HTTP."""
    tls_key: Path | None = None
    """PEM file of the certificate's key; None: it is in the certificate's file."""
    tls_client_ca: Path | None = None
    """PEM file of the authorities that sign client certificates; None: clients are not asked for one."""
    tls_client_certificates: Literal["required", "optional"] = "required"
    """Whether a client without a certificate is refused during the handshake, where there is a ``tls_client_ca``."""
    tls_principals: Path | None = None
    """YAML file that maps client certificates to principals."""
    cors_origins: str | None = None
    """Comma-separated origins of foreign pages that may call this server, with bearer tokens. None: with
    ``environment=development`` that of Vite's development server, elsewhere no page."""

    @field_validator("public_url", "tls_certificate", "tls_key", "tls_client_ca", "tls_principals", mode="before")
    @classmethod
    def _nothing_is_unset(cls, value: object) -> object:
        return value or None

    @field_validator("public_url")
    @classmethod
    def _is_origin(cls, value: str | None) -> str | None:
        return None if value is None else origin_of(value)

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        networks_in(value)
        return value

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, value: str | None) -> str | None:
        for origin in listed(value or ""):
            if not is_origin(origin):
                raise ValueError(
                    f"'{origin}' is not an origin as browsers send it; write scheme, host and port alone, in small "
                    "letters, such as http://localhost:5173 or https://app.example.org, without the port 80 of http "
                    "or 443 of https. '*' and 'null' are not possible"
                )
        return value

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        needed = {"tls_key": "tls_certificate", "tls_client_ca": "tls_certificate", "tls_principals": "tls_client_ca"}
        for name, other in needed.items():
            if getattr(self, name) is not None and getattr(self, other) is None:
                raise ValueError(f"CALLBOARD_{name.upper()} needs CALLBOARD_{other.upper()}; set that too")
        return self

    @property
    def cors_origin_list(self) -> list[str]:
        """The origins of foreign pages that may call this server."""
        if self.cors_origins is None and self.environment == "development":
            return [DEVELOPMENT_ORIGIN]
        return listed(self.cors_origins or "")


class Settings(AgentSettings, WorkerSettings, NetworkSettings):
    """All settings. A field's variable is ``CALLBOARD_`` and its name in capitals."""

    @model_validator(mode="after")
    def _auth_is_clear(self) -> Settings:
        if self.tls_principals is not None and self.auth == "none":
            raise ValueError("CALLBOARD_TLS_PRINCIPALS has no effect with CALLBOARD_AUTH=none; set that to required")
        if self.no_auth and self.auth != "none":
            raise ValueError(
                f"CALLBOARD_NO_AUTH (--no-auth) contradicts CALLBOARD_AUTH={self.auth}; leave one of them out"
            )
        return self
