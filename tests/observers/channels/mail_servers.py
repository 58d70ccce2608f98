"""Servers of mail here: Debian's Dovecot, from which a channel reads, and aiosmtpd, which takes what it sends."""

from __future__ import annotations

import asyncio
import getpass
import imaplib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import psutil
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope

from tests.backends import unprivileged
from tests.ports import free_port

PASSWORD = "mail-password-of-the-test"
ADDRESS = "steward@callboard.example"
MX = "mx.callboard.example"
CONFIGURATION = """
base_dir = {folder}/run
log_path = {folder}/log
protocols = imap
ssl = no
disable_plaintext_auth = no
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
first_valid_uid = 1
mail_location = maildir:{folder}/mail
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/home
}}
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    address = 127.0.0.1
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
"""


def dovecot_program() -> str | None:
    """Return the path of Dovecot, with its IMAP."""
    program = shutil.which("dovecot") or shutil.which("/usr/sbin/dovecot")
    return program if program and Path("/usr/lib/dovecot/imap").exists() else None


class Dovecot:
    """A real server of IMAP with one mailbox, as a process of a user who is not root."""

    def __init__(self, program: str) -> None:
        self._program, self.port = program, free_port()
        self.address = f"imap://127.0.0.1:{self.port}"

    def __enter__(self) -> Dovecot:
        self._folder = Path(tempfile.mkdtemp(prefix="cbmail"))
        own = pwd.getpwnam(unprivileged() if os.geteuid() == 0 else getpass.getuser())
        shutil.chown(self._folder, own.pw_uid, own.pw_gid)
        facts = {"uid": own.pw_uid, "gid": own.pw_gid, "user": own.pw_name, "password": PASSWORD, "port": self.port}
        group = subprocess.run(["id", "-gn", own.pw_name], capture_output=True, text=True, check=True).stdout.strip()
        self._file = self._folder / "dovecot.conf"
        self._file.write_text(CONFIGURATION.format(folder=self._folder, group=group, **facts))
        self._as = ["setpriv", f"--reuid={own.pw_uid}", f"--regid={own.pw_gid}", "--clear-groups"]
        self._as = [*self._as, "--pdeathsig=INT"] if os.geteuid() == 0 else ["setpriv", "--pdeathsig=INT"]
        self.start()
        return self

    def start(self) -> None:
        quiet = subprocess.DEVNULL
        command = [*self._as, self._program, "-F", "-c", str(self._file)]
        self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        until = time.monotonic() + 20
        while True:
            try:
                self._connection = imaplib.IMAP4("127.0.0.1", self.port, timeout=10)
                self._connection.login("steward", PASSWORD)
                return
            except (OSError, imaplib.IMAP4.error):
                assert time.monotonic() < until, (self._folder / "log").read_text()
                time.sleep(0.05)  # another process; only its answers tell

    def stop(self) -> None:
        """End it and its children; the mailbox stays."""
        self._connection.shutdown()
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.terminate()
        self._process.wait(10)
        for child in children:  # those with a client would stay
            with suppress(psutil.NoSuchProcess):
                child.kill()

    def renumber(self) -> None:
        """Make the numbers of the mails void while it is stopped, as a server does that was restored."""
        for file in (self._folder / "mail").glob("dovecot*"):
            file.unlink()

    def deliver(self, mail: bytes) -> None:
        """Put a mail into the mailbox."""
        status, data = self._connection.append("INBOX", "", "", re.sub(rb"\r?\n", b"\r\n", mail))
        assert status == "OK", data

    def flags(self) -> list[bytes]:
        """Return what the server keeps about each mail."""
        self._connection.select("INBOX", readonly=True)
        return [each for each in self._connection.fetch("1:*", "(FLAGS)")[1] if isinstance(each, bytes)]

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


class Outbox:
    """Takes the mails that a channel sends, each with the recipients of its envelope."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.answers: list[str] = []
        """To the next mails; without one a mail is taken."""
        self.delay_s = 0.0
        """Between a mail that was taken, and the answer."""
        self.refused: set[str] = set()
        """Addresses that it has no mailbox for."""
        self._changed = threading.Condition()
        port, check = free_port(), self._authenticate
        self.address = f"smtp://127.0.0.1:{port}"
        self._controller = Controller(self, "127.0.0.1", port, authenticator=check, auth_require_tls=False)

    def _authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        is_right = (data.login, data.password) == (b"steward", PASSWORD.encode())
        return AuthResult(success=is_right, handled=False)

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: Any) -> str:
        if address in self.refused:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # aiosmtpd's name
        if self.answers:
            return self.answers.pop(0)
        assert session.authenticated
        assert isinstance(envelope.content, bytes)
        mail = message_from_bytes(envelope.content, policy=policy.default)
        with self._changed:
            self.mails.append(mail)
            self.recipients.append(list(envelope.rcpt_tos))
            self._changed.notify_all()
        await asyncio.sleep(self.delay_s)
        return "250 OK"

    def __enter__(self) -> Outbox:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

    def until(self, condition: Callable[[], Any], timeout_s: float = 15.0) -> Any:
        """Return what the condition returns, once it is true."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout_s), [text_of(mail) for mail in self.mails]
            return condition()

    def to(self, address: str) -> list[EmailMessage]:
        pairs = zip(self.mails, self.recipients, strict=True)
        return [mail for mail, recipients in pairs if recipients == [address]]

    def texts(self, address: str) -> list[str]:
        return [text_of(mail) for mail in self.to(address)]


def text_of(mail: EmailMessage) -> str:
    return str(mail.get_content()).replace("\r\n", "\n").rstrip("\n")


def mail_of(
    text: str,
    author: str,
    *,
    message_id: str,
    results: str | None = "",
    subject: str = "A question",
    more: Sequence[str] = (),
) -> bytes:
    """Return a plain mail. ``results``: what the receiving server says; "": the sender is genuine; None: nothing."""
    domain = author.rpartition("@")[2].rstrip(">")
    verdict = f"{MX}; dmarc=pass (p=reject) header.from={domain}" if results == "" else results
    lines = [f"Authentication-Results: {verdict}"] if verdict is not None else []
    lines += [f"From: {author}", f"To: {ADDRESS}", f"Subject: {subject}", f"Message-ID: {message_id}", *more]
    if not any(line.lower().startswith("content-type:") for line in more):
        lines.append("Content-Type: text/plain; charset=utf-8")
    return "\n".join([*lines, "", text]).encode()
