"""How a capability's calls are carried out: the fields of ``runner`` in its YAML file."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from config.definitions.secrets import require_no_credentials
from config.egress.errors import UrlRefused
from config.egress.target import parse_target
from config.settings.container_engine import is_image

SECRET_IN_HEADER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
"""Where a header's value has a secret: ``Bearer ${TOKEN}``."""


def _is_address(value: str) -> str:
    try:
        parse_target(value)
    except UrlRefused as error:
        raise ValueError(str(error).rstrip(".")) from error
    return value


def _have_no_secret(value: dict[str, str]) -> dict[str, str]:
    try:
        require_no_credentials({"headers": {name: text for name, text in value.items() if "${" not in text}})
    except ValueError as error:
        raise ValueError("carries a credential; name it under `secrets:` and write ${NAME} here") from error
    return value


Text = Annotated[str, Field(min_length=1, max_length=4000)]
Address = Annotated[Text, AfterValidator(_is_address)]
"""An absolute URL of HTTP or HTTPS."""
Headers = Annotated[dict[Text, Text], AfterValidator(_have_no_secret)]
"""Headers whose values have no credential, but ``${NAME}`` where a secret is."""
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
_Word = Annotated[str, Field(min_length=1, max_length=8000)]


class Strict(BaseModel):
    """A section of a file, without other fields than its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class RunnerLimits(Strict):
    """How much one call may use; see ``agents.tools.isolation.guarded``."""

    cpu_s: Annotated[int, Field(strict=True, ge=1, le=86_400)] = 60
    memory_mb: Annotated[int, Field(strict=True, ge=16, le=1_048_576)] = 1024
    files: Annotated[int, Field(strict=True, ge=16, le=65_536)] = 256
    processes: Annotated[int, Field(strict=True, ge=1, le=4096)] = 64
    file_mb: Annotated[int, Field(strict=True, ge=1, le=65_536)] = 64
    output_kb: Annotated[int, Field(strict=True, ge=1, le=16_384)] = 256


class FunctionSpec(Strict):
    """A Python function of the worker's process."""

    type: Literal["function"]
    path: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=200)]
    """``package.module:function``."""


class ProcessSpec(Strict):
    """A program of the worker's machine."""

    type: Literal["process"]
    command: Annotated[tuple[_Word, ...], Field(min_length=1, max_length=100)]
    """The program and its arguments; a word that begins with ``./`` is a file beside the capability's file."""
    environment: dict[Variable, Annotated[str, Field(max_length=8000)]] = Field(default_factory=dict)
    limits: RunnerLimits = Field(default_factory=RunnerLimits)


class ContainerSpec(Strict):
    """An image that the worker's machine has."""

    type: Literal["container"]
    image: Text
    command: Annotated[tuple[_Word, ...], Field(max_length=100)] = ()
    user: Annotated[str, Field(pattern=r"^[0-9]{1,10}:[0-9]{1,10}$")] = "65534:65534"
    """Numbers of user and group."""
    environment: dict[Variable, Annotated[str, Field(max_length=8000)]] = Field(default_factory=dict)
    limits: RunnerLimits = Field(default_factory=RunnerLimits)

    @field_validator("image")
    @classmethod
    def _is_an_image(cls, value: str) -> str:
        if not is_image(value):
            raise ValueError("is no image's name; write one like registry.example.org/team/name:1.0")
        return value


class EndpointSpec(Strict):
    """A server that is asked by HTTP."""

    type: Literal["http"]
    url: Address
    headers: Headers = Field(default_factory=dict)
    """``${NAME}`` in a value is the secret of that name."""
    sends_context: bool = False
    """Whether requests have the call's contexts in the header ``Callboard-Context``."""


RunnerSpec = Annotated[FunctionSpec | ProcessSpec | ContainerSpec | EndpointSpec, Field(discriminator="type")]
