"""Where the secrets of a webhook are: references in its file, of which each leads to a key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from config.definitions.runner_spec import SECRET_IN_HEADER
from config.definitions.secrets import REFERENCE, REFERENCE_FORM, resolve_secret
from config.definitions.webhooks.signatures import key_of
from config.redaction.provider_keys import is_providers

MAX_SECRETS = 4


def _references(value: Any) -> Any:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        return value
    return tuple(_reference(text if isinstance(text, str) else "") for text in texts)


def _reference(text: str) -> str:
    """Return a reference as ``config.definitions.secrets`` reads it: ``${NAME}`` is ``env:NAME``."""
    variable = SECRET_IN_HEADER.fullmatch(text)
    reference = text if variable is None else f"env:{variable[1]}"
    if not REFERENCE.fullmatch(reference):  # the message never has the value
        raise ValueError(f"has to be `${{VARIABLE}}`, or {REFERENCE_FORM}; never the secret itself")
    if is_providers(reference.removeprefix("env:")):
        raise ValueError("may not be the key of a provider of models")
    return reference


SecretReference = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_reference)]
"""A reference to a secret."""


SecretReferences = Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_SECRETS), BeforeValidator(_references)]
"""References to secrets, written alone or several in a list."""


def keys_of(format_: str, references: Iterable[str], reader: str) -> list[bytes]:
    """Return the keys that secrets stand for; ``reader`` names the process that reads them.

    Raises:
        ValueError: a reference leads to nothing, or a secret is none of the format; the text names the reference.
    """
    return [_key(format_, reference, reader) for reference in references]


def _key(format_: str, reference: str, reader: str) -> bytes:
    secret, problem = resolve_secret(reference), f"is missing or empty for {reader}; set it"
    try:
        if secret is not None:
            return key_of(format_, secret)
    except ValueError as error:
        problem = str(error)
    raise ValueError(f"{reference} {problem}.")
