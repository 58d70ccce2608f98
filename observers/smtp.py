"""The server that sends mails: how a section names it, and one mail by it."""

from __future__ import annotations

import re
import smtplib
import ssl
from collections.abc import Callable, Sequence
from email.charset import QP, Charset
from email.header import Header
from email.mime.text import MIMEText
from email.utils import formatdate
from typing import Annotated

from pydantic import AfterValidator, Field

from config.definitions.runner_spec import Strict
from config.egress.operators import require_operators_url_here
from config.egress.policy import allowed_in
from config.settings import settings

TIMEOUT_S = 30.0
"""Of each of the server's answers."""
MAX_ADDRESS_CHARS = 60
"""Of an e-mail address; a channel's own is part of threads' ids."""
MAIL_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,8}")


def _is_mail_address(value: str) -> str:
    if MAIL_ADDRESS.fullmatch(value) is None or len(value) > MAX_ADDRESS_CHARS:
        raise ValueError(f"has to be an e-mail address of at most {MAX_ADDRESS_CHARS} characters")
    return value.lower()


MailAddress = Annotated[str, AfterValidator(_is_mail_address)]
"""In lower case: no server in use tells two persons apart by case."""


class SmtpFields(Strict):
    """From which address mails are sent, and by which server."""

    address: MailAddress
    """The own address, from which it writes."""
    user: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The name at the server; None: the address."""
    smtp: Annotated[str, Field(pattern=r"^smtps?://[^\s/@]+$", max_length=200)]
    """The server that sends: ``smtps://host`` (465), or ``smtp://host`` (587), which has to offer STARTTLS."""


def text_mail(fields: SmtpFields, to: Sequence[str], subject: str, text: str, message_id: str) -> MIMEText:
    """Return a mail of plain text; ``message_id`` has its brackets."""
    charset = Charset("utf-8")
    charset.body_encoding = QP
    mail = MIMEText(text + "\n", "plain", charset)  # type: ignore[arg-type]  # it takes a Charset too
    mail["Subject"] = Header(subject, header_name="Subject").encode()
    mail["From"], mail["To"], mail["Date"] = fields.address, ", ".join(to), formatdate(usegmt=True)
    mail["Message-ID"] = message_id
    mail["X-Auto-Response-Suppress"] = "All"
    return mail


def send_mail(fields: SmtpFields, password: str | None, mail: MIMEText, to: Sequence[str]) -> dict[str, str]:
    """Send the mail and return the addresses that the server refused, each with its reason.

    Raises:
        SMTPException, OSError: the server refuses all of them, or is not reached.
        ModelVisible: it is at an address that no operator's server has, such as a metadata service's.
    """
    scheme, _, address = fields.smtp.partition("://")
    require_operators_url_here(f"https://{address}", allowed_in(settings().http_allowed_hosts))
    host, port = host_and_port(address, 465 if scheme == "smtps" else 587)
    context = ssl.create_default_context()
    connect: Callable[[], smtplib.SMTP] = (
        (lambda: smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context))
        if scheme == "smtps"
        else (lambda: smtplib.SMTP(host, port, timeout=TIMEOUT_S))
    )
    with connect() as server:
        server.ehlo()
        if scheme == "smtp" and not is_here(fields.smtp):
            server.starttls(context=context)  # raises where the server does not offer it
            server.ehlo()
        if password is not None and server.has_extn("auth"):
            server.login(fields.user or fields.address, password)
        refused = server.send_message(mail, fields.address, list(to))
    return {to_address: mail_problem(smtplib.SMTPResponseException(*answer)) for to_address, answer in refused.items()}


def mail_problem(error: Exception) -> str:
    """Return what a server of mail says, as a sentence."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return mail_problem(smtplib.SMTPResponseException(*next(iter(error.recipients.values()))))
    text = error.args[-1] if error.args else type(error).__name__
    return (text.decode(errors="replace") if isinstance(text, bytes) else str(text))[:200]


def host_and_port(address: str, default: int) -> tuple[str, int]:
    """Return the parts of ``host``, ``host:port``, ``[::1]`` or ``[::1]:port``."""
    host, colon, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if colon and port.isdigit() else (address.strip("[]"), default)


def is_here(address: str) -> bool:
    """Return whether an address is of this machine."""
    host, _ = host_and_port(address.partition("://")[2].partition("/")[0], 0)
    return host in ("localhost", "::1") or re.fullmatch(r"127(?:\.\d{1,3}){3}", host) is not None
