"""The settings: ``CALLBOARD_…`` variables from the environment, ``.env`` or ``callboard.toml``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from config.errors import SettingInvalid
from config.identity.principal import NAME, NAME_FORM, Principal, Role
from config.identity.role_mapping import parse_mapping
from config.identity.sign_in_settings import SignInSettings
from config.limits import WITH_AUTHENTICATION, Limit, LimitName, Tenants, TenantSettings
from config.network_settings import NetworkSettings
from config.origins import is_origin, listed
from config.provider_keys import may_adopt
from config.redaction import forget, register_secrets, secrets_in_url
from config.redis.url import REDIS_SCHEMES, each_url
from config.spelling import did_you_mean

QUEUE_NAME = r"[A-Za-z0-9_.-]{1,60}"
"""What a queue may be called."""
QUEUE_NAME_FORM = "a queue's name: 1 to 60 letters, digits, '_', '-' and '.'"
_FORMS = {
    "deployment": "has to be a name: 1 to 40 letters, digits, '_', '-' and '.'",
    "tenant": f"has to be {NAME_FORM}",
    "principal": f"has to be {NAME_FORM}",
    "queue": f"has to be {QUEUE_NAME_FORM}",
    "queues": f"has to be queues with commas between them, each {QUEUE_NAME_FORM}",
    "tool_modules": "has to be names of Python modules with commas between them",
}
"""Setting -> the form of its value, said in place of the regular expression that checks it."""
ROOT = Path(__file__).resolve().parent.parent
"""The checkout's folder, from which Callboard runs."""


SERVICE_ALGORITHMS = frozenset("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split())
"""Signatures by a private key; with HMAC each service that checks a token could also make one."""
SEED_NAMES = {
    "TEMPORAL_NAMESPACE": "deployment",
    "TEMPORAL_TASK_QUEUE": "queue",
    "DATABASE_POOL_SIZE": "database_pool_size",
    "DATABASE_MAX_OVERFLOW": "database_max_overflow",
}
"""Variables of Callboard's predecessors -> the setting that each one sets."""


class Settings(SignInSettings, NetworkSettings):
    """All settings. A field's variable is ``CALLBOARD_`` and its name in capitals."""

    model_config = SettingsConfigDict(
        env_prefix="CALLBOARD_",
        env_file=ROOT / ".env",
        toml_file=ROOT / "callboard.toml",
        extra="ignore",
        frozen=True,
        defer_build=True,
    )

    no_config: bool = False
    """Ignore ``.env`` and ``callboard.toml``; can be set in the environment only."""
    redis_url: str | None = None
    """Redis of the hot log, and of Celery's queue unless ``broker_url`` is set. None: no Redis is used."""
    broker_url: str | None = None
    """Celery's broker; the default is the Redis URL."""
    database_url: str | None = None
    """SQLAlchemy URL; the default is SQLite in the state folder."""
    state_dir: Path = Path(".callboard")
    """Folder of the database, the socket, the logs and the sandbox."""
    deployment: str = Field(default="default", pattern=r"^[A-Za-z0-9_.-]{1,40}$")
    """Prefix of every Redis key, so that several deployments can share a server."""
    agents_dir: str = "config/agents"
    """One or more folders of agent definitions, separated by ``:``; the first one that has an id wins."""
    default_agent: str = "assistant"
    """The agent of requests that name none."""
    host: str = "127.0.0.1"
    """Address the web process binds to."""
    port: int = Field(default=8000, ge=0, le=65535)
    """TCP port of the web process; 0 picks a free one."""
    tenant: str = Field(default="default", pattern=rf"^{NAME}$")
    """The tenant that the terminal and Python programs act in, and a web process without authentication."""
    principal: str = Field(default="local", pattern=rf"^{NAME}$")
    """The principal that they act as; it has every role of its tenant."""
    auth: Literal["none", "local", "required"] = "none"
    """Which requests need a credential: none; all, and the installation's own token is one; all."""
    no_auth: bool = False
    """Serve an address other than loopback without authentication."""
    allowed_hosts: str = ""
    """Comma-separated host names accepted besides loopback (used with ``auth=required`` or ``no_auth``)."""
    service_issuer: str = ""
    """Whose service tokens (JWT) are credentials: their ``iss``. Empty: of none."""
    service_audience: str = "callboard"
    """What their ``aud`` has to be, or has to be among."""
    service_jwks: str = ""
    """The issuer's public keys: the ``https://`` address of a JWKS, or a file."""
    service_algorithms: str = "RS256,ES256,EdDSA"
    """Comma-separated signature algorithms that are accepted."""
    service_max_lifetime_s: int = Field(default=3600, ge=1)
    """Seconds between ``iat`` and ``exp`` that a token may have at most."""
    service_tenant_claim: str = ""
    """The claim with the tenant; empty: all tokens are of tenant ``default``."""
    service_roles_claim: str = "roles"
    """The claim with the groups that ``service_roles`` maps to roles."""
    service_roles: str = ""
    """Comma-separated ``value=role``: the roles that values of the claim give; other values give none."""
    cors_origins: str = ""
    """Comma-separated origins of foreign pages that may call this server, with bearer tokens."""
    trusted_network: bool = False
    """Whether the network to servers on other machines is private; the doctor then only warns of plain text."""
    workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=256)
    """Worker processes the supervisor keeps running."""
    slots: int = Field(default=200, ge=1, le=2000)
    """Runs that one worker process executes at once."""
    plugins: str = ""
    """Comma-separated dotted paths of observers and tools (``package.module:Name``)."""
    tool_modules: str = Field(default=".", pattern=r"^\s*(\.|[A-Za-z_][\w.]*)?(\s*,\s*(\.|[A-Za-z_][\w.]*)?)*\s*$")
    """Comma-separated modules a definition may name by dotted path: ``.`` allows those of the working folder, a package
    allows all in it. Installed plugins and ``plugins`` are always allowed."""
    builtins: bool = True
    """Whether the built-in observers and tools are available."""
    embedded: Literal["auto", "path", "wheel", "process"] = "auto"
    """Which Redis ``up`` starts without a URL: the first one found, the one on the PATH, the wheel's, or none."""
    queue: str = Field(default="runs", pattern=rf"^{QUEUE_NAME}$")
    """Name of Celery's queue; web and workers have to agree on it."""
    queues: str = Field(default="", pattern=rf"^(\s*{QUEUE_NAME}\s*(,\s*{QUEUE_NAME}\s*)*)?$")
    """Queues that a worker serves, ``,`` between them; empty: ``queue`` alone."""
    database_pool_size: int = Field(default=20, ge=1, le=500)
    """Connections a process keeps open to the database."""
    database_max_overflow: int = Field(default=10, ge=0, le=500)
    """Additional connections a process may open temporarily."""
    fast_stream: bool = True
    """Whether model streams use the fast path; ``0`` sends all of them through LiteLLM's wrapper."""
    debug: bool = False
    """Show tracebacks, and log message bodies too."""
    log_format: Literal["text", "json"] = "text"
    """Format of log lines."""
    log_deltas: bool = False
    """Whether the logger observer also writes each delta."""
    lease_s: float = Field(default=15.0, gt=0)
    """Seconds a worker owns a run after a heartbeat."""
    beat_s: float = Field(default=5.0, gt=0)
    """Seconds between two heartbeats."""
    reap_s: float = Field(default=5.0, gt=0)
    """Seconds between two searches for expired leases, due timers and unpublished wake-ups."""
    drain_s: float = Field(default=20.0, gt=0)
    """Seconds a draining worker gives its current steps."""
    approval_ttl_s: int = Field(default=7 * 24 * 3600, ge=1)
    """Seconds a run waits for an approval or for compatible code; then it fails."""
    hot_log_ttl_s: int = Field(default=3600, ge=1)
    """Seconds the hot log is kept after a run's end; later readers read SQL."""
    hot_log_max_bytes: int = Field(default=4 * 1024 * 1024, ge=16 * 1024)
    """Bytes of events a run may hold in Redis while it streams; older ones are in SQL. After its end 64 KiB stay."""
    retain_threads_days: float = Field(default=0, ge=0)
    """Days an unused thread is kept, with everything in it; 0 is for ever."""
    retain_runs_days: float = Field(default=0, ge=0)
    """Days a run is kept after its end; its thread keeps the messages. 0 is for ever."""
    retain_events_days: float = Field(default=0, ge=0)
    """Days a run's log is kept after its end; the run stays, with its outcome. 0 is for ever."""
    retain_logs_days: float = Field(default=0, ge=0)
    """Days the logger observer's files are kept after their last line; 0 is until rotation deletes them."""
    max_result_chars: int = Field(default=64_000, ge=1_000)
    """Characters of one tool result that the model gets; the log and the page have the whole result."""
    max_input_chars: int = Field(default=200_000, ge=1)
    """Longest input of a run."""
    principal_requests_per_minute: Limit | None = None
    """Requests of one principal; 0: any number. None, here and below: as ``config.limits`` says."""
    tenant_requests_per_minute: Limit | None = None
    """Requests of one tenant."""
    principal_open_runs: Limit | None = None
    """Runs of one principal that have not ended."""
    tenant_open_runs: Limit | None = None
    """Runs of one tenant that have not ended."""
    principal_queued_runs: Limit | None = None
    """Runs of one principal that wait for a worker."""
    tenant_queued_runs: Limit | None = None
    """Runs of one tenant that wait for a worker."""
    principal_viewers: Limit | None = None
    """Streams that one principal may follow in one web process."""
    tenant_viewers: Limit | None = None
    """Streams that one tenant may follow in one web process."""
    sandbox_max_bytes: Limit = 100 * 1024 * 1024
    """Bytes of a principal's files with one agent; 0: any number."""
    sandbox_max_files: Limit = 1000
    """Files and folders of a principal with one agent; 0: any number."""
    tenants: Annotated[dict[Annotated[str, Field(pattern=rf"^{NAME}$")], TenantSettings], AfterValidator(Tenants)] = (
        Tenants()
    )
    """Tenants with settings of their own: ``[tenants.NAME]`` in ``callboard.toml``, or JSON in the environment."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        seeds = {name: os.environ[seed] for seed, name in SEED_NAMES.items() if os.environ.get(seed)}
        seed_settings = InitSettingsSource(settings_cls, seeds)
        if not reads_files():
            no_file = TomlConfigSettingsSource(settings_cls, toml_file=None)
            return init_settings, env_settings, no_file, seed_settings
        return init_settings, env_settings, dotenv_settings, TomlConfigSettingsSource(settings_cls), seed_settings

    @field_validator(
        "redis_url",
        "broker_url",
        "database_url",
        "oidc_issuer",
        "oidc_client_secret",
        mode="before",
    )
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

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, value: str) -> str:
        for origin in listed(value):
            if not is_origin(origin):
                raise ValueError(
                    f"'{origin}' is not an origin as browsers send it; write scheme, host and port alone, in small "
                    "letters, such as http://localhost:5173 or https://app.example.org, without the port 80 of http "
                    "or 443 of https. '*' and 'null' are not possible"
                )
        return value

    @model_validator(mode="after")
    def _periods_agree(self) -> Settings:
        if self.beat_s * 2 > self.lease_s:
            raise ValueError(
                f"CALLBOARD_BEAT_S ({self.beat_s:g}) has to be at most half of CALLBOARD_LEASE_S "
                f"({self.lease_s:g}), or a healthy worker loses its runs"
            )
        return self

    @model_validator(mode="after")
    def _auth_is_clear(self) -> Settings:
        if self.tls_principals is not None and self.auth == "none":
            raise ValueError("CALLBOARD_TLS_PRINCIPALS has no effect with CALLBOARD_AUTH=none; set that to required")
        if self.no_auth and self.auth != "none":
            raise ValueError(
                f"CALLBOARD_NO_AUTH (--no-auth) contradicts CALLBOARD_AUTH={self.auth}; leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _service_tokens_are_clear(self) -> Settings:
        if not self.service_issuer:
            return self
        parts = urlsplit(self.service_jwks)
        is_plain = parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost")
        if not self.service_jwks or not self.service_audience:
            raise ValueError("CALLBOARD_SERVICE_ISSUER needs CALLBOARD_SERVICE_JWKS and CALLBOARD_SERVICE_AUDIENCE")
        if (is_plain and not self.trusted_network) or parts.scheme not in ("", "http", "https"):
            raise ValueError("CALLBOARD_SERVICE_JWKS has to be an https:// address, or a file")
        if not self.service_algorithm_names or set(self.service_algorithm_names) - SERVICE_ALGORITHMS:
            raise ValueError(
                f"CALLBOARD_SERVICE_ALGORITHMS ({self.service_algorithms}) has to be some of "
                f"{', '.join(sorted(SERVICE_ALGORITHMS))}"
            )
        parse_mapping(self.service_roles)
        return self

    @property
    def service_algorithm_names(self) -> tuple[str, ...]:
        """The accepted signature algorithms of service tokens."""
        return tuple(part.strip() for part in self.service_algorithms.split(",") if part.strip())

    @model_validator(mode="after")
    def _sign_in_is_whole(self) -> Settings:
        if self.oidc_issuer is not None and not self.oidc_client_id:
            raise ValueError("CALLBOARD_OIDC_ISSUER needs CALLBOARD_OIDC_CLIENT_ID; set that too")
        if self.oidc_issuer is not None and self.auth != "required":
            raise ValueError(
                f"CALLBOARD_OIDC_ISSUER has no effect with CALLBOARD_AUTH={self.auth}; set that to required"
            )
        return self

    @property
    def serves_others(self) -> bool:
        """Whether other machines may be served: each of their requests is authenticated, or none has to be."""
        return self.no_auth or self.auth == "required"

    def for_tenant(self, tenant: str) -> Settings:
        """Return the settings with those of the tenant's section in place of the deployment's."""
        own = self.tenants.get(tenant)
        return self if own is None else self.model_copy(update=own.model_dump(exclude_none=True))

    def limit(self, name: LimitName, tenant: str) -> int:
        """Return a limit for a tenant or its principals; 0: there is none."""
        value: int | None = getattr(self.for_tenant(tenant), name)
        if value is None:
            return WITH_AUTHENTICATION[name] if self.auth != "none" else 0
        return value

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

    @property
    def local_principal(self) -> Principal:
        """Who acts where no credential is asked for, with every role of its tenant."""
        return Principal(tenant=self.tenant, id=self.principal, roles=frozenset(Role))

    def is_local(self, principal: Principal) -> bool:
        """Return whether a principal has the name of the local one; an issuer of credentials may not give it."""
        return (principal.tenant, principal.id) == (self.tenant, self.principal)

    @property
    def agent_folders(self) -> list[Path]:
        """The folders of agent definitions, absolute, in order."""
        return [(ROOT / part).resolve() for part in self.agents_dir.split(":") if part]

    @property
    def plugin_paths(self) -> list[str]:
        """The dotted paths of plugins, in order."""
        return listed(self.plugins)

    @property
    def cors_origin_list(self) -> list[str]:
        """The origins of foreign pages that may call this server."""
        return listed(self.cors_origins)

    @property
    def tool_module_names(self) -> tuple[str, ...]:
        """The modules a dotted path may name, in order; ``.`` stands for those of the working folder."""
        return tuple(listed(self.tool_modules))


def reads_files() -> bool:
    """Return whether ``.env`` and ``callboard.toml`` are read; ``CALLBOARD_NO_CONFIG=1`` disables both."""
    return os.environ.get("CALLBOARD_NO_CONFIG", "").lower() not in ("1", "true", "yes", "on")


def adopt_env_file() -> None:
    """Add variables of ``.env`` that are not settings, such as a provider's key, unless the environment has them."""
    file = ROOT / ".env"
    if not reads_files() or not file.is_file():
        return
    for name, value in dotenv_values(file).items():
        if value is not None and not name.startswith("CALLBOARD_") and may_adopt(os.environ, name, value):
            os.environ.setdefault(name, value)
    forget()  # keys among them are secrets


def read_settings(**overrides: object) -> Settings:
    """Return the current settings.

    Raises:
        SettingInvalid: a value does not fit; the message names the variable.
    """
    try:
        found = Settings(**overrides)  # type: ignore[arg-type]  # pydantic checks the values
    except tomllib.TOMLDecodeError as error:
        raise SettingInvalid(f"callboard.toml cannot be read: {error}. Correct the file.") from error
    except SettingsError as error:
        raise SettingInvalid(
            "CALLBOARD_TENANTS is not JSON; write an object of tenants, each with its settings, such as "
            '{"acme": {"tenant_open_runs": 100}}, or sections [tenants.acme] in callboard.toml.'
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = "_".join(str(part) for part in first["loc"])
        variable = f"CALLBOARD_{name.upper()} " if name else ""
        problem = _FORMS.get(name) or first["msg"].removeprefix("Value error, ")
        raise SettingInvalid(
            f"{variable}cannot be used{_shown(first)}: {problem}. "
            "Correct it in the environment, .env or callboard.toml."
        ) from error
    for urls in filter(None, (found.redis_url, found.broker_url, found.database_url)):
        for url in each_url(urls):
            register_secrets(secrets_in_url(url))
    if found.oidc_client_secret is not None:
        register_secrets([found.oidc_client_secret.get_secret_value()])
    return found


def _shown(error: Mapping[str, Any]) -> str:
    """Return the invalid value if it is short, and not a URL."""
    value = error.get("input")
    is_url = "url" in "".join(map(str, error["loc"]))  # it may hold a password
    return f" ('{value}')" if isinstance(value, str | int | float) and len(str(value)) <= 60 and not is_url else ""


def unknown_variables(environment: dict[str, str]) -> list[str]:
    """Return a sentence for each ``CALLBOARD_`` variable that no setting reads."""
    known = {f"CALLBOARD_{name.upper()}" for name in Settings.model_fields}
    offered = known - {"CALLBOARD_NO_AUTH"}  # never suggested, since it disables a protection
    return [
        f"{name} is not a setting.{did_you_mean(name, offered)}"
        for name in sorted(environment)
        if name.startswith("CALLBOARD_") and name not in known
    ]


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Return this process's settings, read once, after ``adopt_env_file``."""
    adopt_env_file()
    return read_settings()
