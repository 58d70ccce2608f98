"""The channels' file, ``config/channels.yaml``: which platforms are served, and who there is which principal.

A channel acts with the key of the person that wrote, so the server decides as it does for any client. A file that
cannot be read as a whole starts no channel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from config.definitions.errors import DefinitionInvalid
from config.definitions.runner_spec import Address, Strict
from config.definitions.secrets import resolve_secret
from config.definitions.webhooks.secret_references import SecretReference
from config.definitions.yaml_lines import Mistakes, Place, read_yaml
from config.identity.principal import NAME, NAME_FORM
from config.redaction import redact
from observers.smtp import MailAddress, SmtpFields, is_here

Name = Annotated[str, Field(pattern=rf"^{NAME}$")]


def _is_user_id(value: str) -> str:
    if not (value.isascii() and value.isdigit() and len(value) <= 20):
        raise ValueError("the id of a person is a number; copy it with Discord's developer mode")
    return value


def _is_member_id(value: str) -> str:
    if re.fullmatch(r"[UW][A-Z0-9]{2,20}", value) is None:
        raise ValueError("the id of a person is the member ID that the profile's menu copies, `U...`")
    return value


UserId = Annotated[str, AfterValidator(_is_user_id)]
"""A person's id at Discord, in quotes: YAML would take it for a number."""
SlackId = Annotated[str, AfterValidator(_is_member_id)]
"""A member's id at Slack."""


class PersonFields(Strict):
    """Which principal a person of the platform is, and what that person may decide."""

    principal: Name
    """Whose runs the person's messages start."""
    key: SecretReference
    """That principal's API key."""
    decides: Literal["own", "all", "none"] = "own"
    """Which questions the person may answer here, as far as the server lets the key: those of runs that this person
    started, those of every run, or none."""


class GuestFields(Strict):
    """The principal of all persons that the table does not have. It decides nothing here."""

    principal: Name
    key: SecretReference


class ChannelFields(Strict):
    """What every platform's section has."""

    agent: Annotated[str, Field(min_length=1, max_length=100)] = "steward"
    """The agent that answers."""
    people: dict[str, PersonFields] = Field(default_factory=dict)
    """A person's id at the platform -> the principal."""
    strangers: Literal["refuse", "guest"] = "refuse"
    """What persons get who are not under ``people``: a sentence, or the answers of the agent, as ``guest``."""
    guest: GuestFields | None = None
    """With ``strangers: guest``: as whom they talk."""

    def secrets(self) -> dict[str, str]:
        """Return the fields with the channel's own secrets, and where each is."""
        raise NotImplementedError

    def addresses(self) -> list[str]:
        """Return where the channel connects to, as addresses of HTTP."""
        return []

    @model_validator(mode="after")
    def _has_a_guest(self) -> Self:
        if (self.strangers == "guest") != (self.guest is not None):
            raise ValueError("`strangers` is guest where there is a section `guest`, and only there; write both")
        return self


class DiscordFields(ChannelFields):
    """The bot of Discord."""

    token: SecretReference
    """The bot's token."""
    people: dict[UserId, PersonFields] = Field(default_factory=dict)
    answers: Literal["mentions", "all"] = "mentions"
    """Which messages in servers it answers: those that mention it or reply to it, or all that it can read. Direct
    messages it always answers."""
    api: Address = "https://discord.com/api/v10"
    """The address of Discord's REST interface, or of a proxy of yours before it."""
    gateway: Annotated[str, Field(pattern=r"^wss?://[^\s/]+/?$", max_length=200)] = "wss://gateway.discord.gg"
    """The address of Discord's gateway, or of a proxy of yours before it."""

    def secrets(self) -> dict[str, str]:
        return {"token": self.token}

    def addresses(self) -> list[str]:
        return [self.api, self.gateway.replace("ws", "http", 1)]

    @model_validator(mode="after")
    def _sends_the_token_safely(self) -> Self:
        for name, address in (("api", self.api), ("gateway", self.gateway)):
            scheme = address.partition("://")[0]
            if scheme in ("http", "ws") and not is_here(address):
                problem = f"has to be encrypted, since the bot's token goes there; {scheme} is for this machine alone"
                raise ValueError(f"`{name}` {problem}")
        return self


class EmailFields(SmtpFields, ChannelFields):
    """A mailbox whose mails are answered."""

    password: SecretReference
    """The password at both servers."""
    imap: Annotated[str, Field(pattern=r"^imaps?://[^\s/@]+$", max_length=200)]
    """The server with the mailbox: ``imaps://host``, with a port where it is not 993."""
    folder: Annotated[str, Field(min_length=1, max_length=200)] = "INBOX"
    """Where mails arrive. The channel changes nothing in it."""
    authserv_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=200)]
    """Whose ``Authentication-Results`` say that a sender is genuine: the name that your receiving server writes."""
    people: dict[MailAddress, PersonFields] = Field(default_factory=dict)
    poll_s: Annotated[float, Field(ge=0.1, le=3600)] = 30.0
    """Seconds between two looks into the mailbox."""
    max_answers_per_hour: Annotated[int, Field(ge=1, le=1000)] = 20
    """Of one sender, how many mails are answered in an hour; further ones are not."""

    def secrets(self) -> dict[str, str]:
        return {"password": self.password}

    def addresses(self) -> list[str]:
        return [f"https://{address.partition('://')[2]}" for address in (self.imap, self.smtp)]

    @model_validator(mode="after")
    def _is_encrypted(self) -> Self:
        if self.imap.startswith("imap:") and not is_here(self.imap):
            raise ValueError("`imap` has to be encrypted, since the password goes there; write imaps://")
        if self.address in self.people:
            raise ValueError("`people` has the channel's own address, whose mails are never answered")
        return self


class SlackFields(ChannelFields):
    """An app of Slack."""

    token: SecretReference
    """The bot's token, ``xoxb-...``."""
    app_token: SecretReference | None = None
    """The app's token, ``xapp-...``: Slack delivers through a connection that the app opens (Socket Mode)."""
    signing_secret: SecretReference | None = None
    """The app's signing secret: Slack delivers by HTTP to ``/slack/events`` of this process."""
    people: dict[SlackId, PersonFields] = Field(default_factory=dict)
    api: Address = "https://slack.com/api/"
    """The address of Slack's Web API, or of a proxy of yours before it."""

    def secrets(self) -> dict[str, str]:
        names = ("token", "app_token", "signing_secret")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def addresses(self) -> list[str]:
        return [self.api]

    @model_validator(mode="after")
    def _has_one_way_in(self) -> Self:
        if (self.app_token is None) == (self.signing_secret is None):
            raise ValueError("has to have either `app_token` (Socket Mode) or `signing_secret` (HTTP)")
        if self.api.startswith("http:") and not is_here(self.api):
            raise ValueError("`api` has to be encrypted, since the bot's token goes there; write https://")
        return self


class ChannelsFields(Strict):
    """The whole file."""

    server: Address = "http://127.0.0.1:8000"
    """Callboard's address."""
    discord: DiscordFields | None = None
    email: EmailFields | None = None
    slack: SlackFields | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelStart:
    """What the process of one channel is started with."""

    name: str
    file: Path
    server: str
    section: ChannelFields
    state: Path
    """The folder of the machine's state."""


_SECTIONS: dict[str, type[Strict]] = {"discord": DiscordFields, "email": EmailFields, "slack": SlackFields}


def _section_of(location: Place) -> type[Strict]:
    section: type[Strict] = ChannelsFields if len(location) < 2 else _SECTIONS[str(location[0])]
    if len(location) > 2:
        return PersonFields if location[1] == "people" else GuestFields
    return section


_MISTAKES = Mistakes(
    section_of=_section_of,
    as_written=lambda place: tuple(part for part in place if part != "[key]"),
    sentences={
        "missing": "`{name}` is missing; docs/channels.md shows the file.",
        "string_pattern_mismatch principal": f"has to be {NAME_FORM}.",
        "dict_type people": "has to be a mapping from the id of a person to `principal` and `key`.",
        "string_pattern_mismatch gateway": "has to begin with wss:// and name a host.",
        "string_pattern_mismatch imap": "has to be imaps:// and a host, with a port where it is not 993.",
        "string_pattern_mismatch smtp": "has to be smtps:// or smtp:// and a host, with a port where needed.",
        "string_type key": "has to say where the key is, as ${{VARIABLE}}.",
        "string_type token": "has to say where the token is, as ${{VARIABLE}}.",
        "literal_error": "has to be {expected}.",
    },
)


def load_channels(path: Path) -> ChannelsFields:
    """Return what the channels' file says.

    Raises:
        DefinitionInvalid: the message names the file, the line, the field and what to write instead.
    """
    written = read_yaml(path, "`discord:`")
    try:
        return ChannelsFields.model_validate(written.data)
    except ValidationError as error:
        raise _MISTAKES.first(error, written).refusal(str(path), written) from error


def secret_of(path: Path, field: str, reference: str) -> str:
    """Return the secret that a field of the file refers to.

    Raises:
        DefinitionInvalid: the reference leads to nothing.
    """
    value = resolve_secret(reference)
    if value is None:
        name = reference.removeprefix("env:")
        raise DefinitionInvalid(
            str(path), None, field, f"{redact(name)} is not set, or empty; set it for this process."
        )
    return value
