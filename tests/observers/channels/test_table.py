"""The channels' file: what is wrong with one is a sentence with file, line and remedy, and it starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.definitions.errors import DefinitionInvalid
from observers.channels.table import load_channels, secret_of

BOT = "discord:\n  token: ${T}\n"
MAIL = "email:\n  address: s@x.org\n  password: ${P}\n"
SMTP, IMAP = "  authserv_id: mx\n  smtp: smtp://mail.x.org\n  poll_s: 5\n", "  imap: imaps://mail.x.org\n"
ANA = "  people:\n    '12':\n      principal: ana\n"


def refusal_of(text: str, folder: Path) -> str:
    file = folder / "channels.yaml"
    file.write_text(text)
    with pytest.raises(DefinitionInvalid) as refusal:
        load_channels(file)
    return str(refusal.value).removeprefix(str(file))


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "channels.yaml"
    file.write_text(BOT + ANA + "      key: secret://ana\n  strangers: guest\n  guest: {principal: g, key: 'env:G'}\n")

    fields = load_channels(file).discord

    assert fields is not None
    assert (fields.token, fields.agent, fields.answers) == ("env:T", "steward", "mentions")
    assert (fields.people["12"].key, fields.people["12"].decides) == ("secret://ana", "own")
    assert fields.guest is not None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("teams: {}\n", ":1: teams: there is no such field. Known fields: server, discord, "),
        ("discord:\n  agent: x\n", ":1: discord.token: `token` is missing; docs/channels.md shows the file."),
        (BOT + "  agnet: x\n", ":3: discord.agnet: there is no such field. Did you mean 'agent'? Known fields: "),
        (BOT + ANA + "      key: ${A}\n      decide: all\n", ":7: discord.people.12.decide: there is no such field. "),
        (BOT + ANA + "      key: cbk_0123456789\n", ":6: discord.people.12.key: has to be `${VARIABLE}`, or "),
        (BOT + "  people: {ana: {principal: ana, key: '${A}'}}\n", ":3: discord.people.ana: the id of a person is a "),
        (BOT + "  people: [12]\n", ":3: discord.people: has to be a mapping from the id of a person to "),
        (BOT + "  strangers: allow\n", ":3: discord.strangers: has to be 'refuse' or 'guest'."),
        (BOT + "  strangers: guest\n", ":3: discord.strangers: `strangers` is guest where there is a section `guest`"),
        (
            BOT + "  api: http://example.org\n",
            ":3: discord.api: `api` has to be encrypted, since the bot's token goes ",
        ),
        (BOT + "  gateway: ws://example.org\n", ":3: discord.gateway: `gateway` has to be encrypted, since the bot's "),
        (MAIL + "  authserv_id: mx\n", ":1: email.smtp: `smtp` is missing; docs/channels.md shows the file."),
        (MAIL + SMTP + "  imap: pop://h\n", ":7: email.imap: has to be imaps:// and a host, with a port "),
        (MAIL + SMTP + "  imap: imap://h\n", ":7: email.imap: `imap` has to be encrypted, since the password "),
        (MAIL + SMTP + IMAP + "  people: {'12': {principal: a, key: 'env:K'}}\n", ":8: email.people.12: has to be an "),
        (
            MAIL + SMTP + IMAP + "  people: {S@x.org: {principal: a, key: 'env:K'}}\n",
            ":8: email.people: `people` has",
        ),
        ("slack:\n  token: ${T}\n", ":1: slack: has to have either `app_token` (Socket Mode) or "),
        ("slack:\n  token: ${T}\n  app_token: ${A}\n  api: http://a.org\n", ":4: slack.api: `api` has to be encrypted"),
        (BOT + "  token: ${U}\n", ":3: discord.token: is written twice; "),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    refusal = refusal_of(text, tmp_path)

    assert refusal.startswith(sentence)
    assert "cbk_" not in refusal


def test_a_secret_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY_KEY", " ")

    with pytest.raises(DefinitionInvalid, match=r"discord\.token: EMPTY_KEY is not set, or empty"):
        secret_of(tmp_path / "channels.yaml", "discord.token", "env:EMPTY_KEY")
