"""Why a session with an MCP server could not be opened, by kind, and what to do about each."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from enum import StrEnum

from config.errors import CallboardError


class McpFault(StrEnum):
    """What is wrong with a server that cannot be used."""

    NO_PROGRAM = "no_program"
    NOT_EXECUTABLE = "not_executable"
    NO_PACKAGE = "no_package"
    ENDED = "ended"
    SILENT = "silent"
    NO_HOST = "no_host"
    NO_CONNECTION = "no_connection"
    TLS = "tls"
    NO_LOGIN = "no_login"
    FORBIDDEN = "forbidden"
    WRONG_ADDRESS = "wrong_address"
    SERVER_ERROR = "server_error"
    OTHER_VERSION = "other_version"

    @property
    def remedy(self) -> str:
        """What to do about it, as a sentence."""
        return _REMEDIES[self]


_REMEDIES = {
    McpFault.NO_PROGRAM: "Install the program for the user of the workers, or write its whole path as `command`; "
    "its folder has to be on their PATH.",
    McpFault.NOT_EXECUTABLE: "Name a program that the user of the workers may execute (`chmod +x`).",
    McpFault.NO_PACKAGE: "Install the missing package where `command` looks for it: the interpreter of a virtual "
    "environment is named by its path, such as /srv/shop/.venv/bin/python.",
    McpFault.ENDED: "Its standard error says why it ended; start the command by hand with the same arguments.",
    McpFault.SILENT: "Raise `start_s` if it needs longer, such as a first start that downloads packages; write "
    "`mode: legacy` if it hangs when it is asked for the protocol of 2026.",
    McpFault.NO_HOST: "Correct the host in `url`, or the name service of this machine.",
    McpFault.NO_CONNECTION: "Start the server, or correct host and port in `url`; a firewall may be between them.",
    McpFault.TLS: "Correct the server's certificate, add its authority to SSL_CERT_FILE of the workers, or write "
    "http:// if it has no TLS.",
    McpFault.NO_LOGIN: "Give it credentials: `headers` with a secret, or `oauth` and `./callboard mcp login`.",
    McpFault.FORBIDDEN: "The credentials are known and may not use it; correct what they are allowed there.",
    McpFault.WRONG_ADDRESS: "Correct `url`: the path of most servers is /mcp; write `transport: sse` for a server with "
    "the older HTTP.",
    McpFault.SERVER_ERROR: "Look into the server's own log.",
    McpFault.OTHER_VERSION: "Use a release of the server that speaks the protocol of 2026-07-28, or one from "
    "2024-11-05 to 2025-11-25.",
}


def of_connecting(error: BaseException) -> tuple[McpFault, str]:
    """Return why no connection came about, and the part of a sentence that says so."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return McpFault.TLS, f"its certificate is not accepted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return McpFault.TLS, f"TLS with it fails ({getattr(cause, 'reason', '') or 'handshake'})"
        if isinstance(cause, socket.gaierror):
            return McpFault.NO_HOST, "the name of its host is not known"
        if isinstance(cause, ConnectionRefusedError):
            return McpFault.NO_CONNECTION, "it cannot be reached: nothing accepts connections at its address"
    return McpFault.NO_CONNECTION, f"it cannot be reached ({type(error).__name__})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        cause = waiting.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions


def of_status(status: int) -> McpFault:
    """Return what a status of HTTP says of the server."""
    if status >= 500:
        return McpFault.SERVER_ERROR
    return {401: McpFault.NO_LOGIN, 403: McpFault.FORBIDDEN, 407: McpFault.FORBIDDEN}.get(
        status, McpFault.WRONG_ADDRESS
    )


def of_exit(status: int, output: str) -> McpFault:
    """Return what a program's exit status and its standard error say of its command."""
    if status == 127:
        return McpFault.NO_PROGRAM
    if status == 126:
        return McpFault.NOT_EXECUTABLE
    has_no_package = any(mark in output for mark in ("No module named", "ModuleNotFoundError", "Cannot find module"))
    return McpFault.NO_PACKAGE if has_no_package else McpFault.ENDED


def with_remedy(error: CallboardError) -> str:
    """Return what is wrong with a server, and what to do about it where that is known."""
    text, fault = str(error).removesuffix(" The call was not made."), error.facts.get("fault")
    return f"{text} {fault.remedy}" if isinstance(fault, McpFault) else text
