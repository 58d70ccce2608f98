"""What a failure says about a server, and that each kind has a remedy."""

from __future__ import annotations

import socket
import ssl

import httpx2
import pytest

from agents.tools.mcp.connection.faults import McpFault, of_connecting, of_exit, of_status


def test_each_kind_has_a_remedy() -> None:
    assert all(fault.remedy.endswith((".", ")")) for fault in McpFault)


def refused(cause: BaseException) -> httpx2.ConnectError:
    """Return the error of the HTTP client that a failure of the system became, several layers below."""
    between = OSError("All connection attempts failed")
    between.__cause__ = ExceptionGroup("several", [cause]) if isinstance(cause, Exception) else cause
    error = httpx2.ConnectError("All connection attempts failed")
    error.__context__ = between
    return error


NO_CERTIFICATE = ssl.SSLCertVerificationError(1, "certificate verify failed")
NO_CERTIFICATE.verify_message = "self-signed certificate"


@pytest.mark.parametrize(
    ("cause", "fault", "message"),
    [
        (NO_CERTIFICATE, McpFault.TLS, "certificate is not accepted (self-signed certificate)"),
        (ssl.SSLError(1, "[SSL] wrong version number"), McpFault.TLS, "TLS with it fails"),
        (socket.gaierror(-2, "Name or service not known"), McpFault.NO_HOST, "name of its host is not known"),
        (ConnectionRefusedError(111, "refused"), McpFault.NO_CONNECTION, "nothing accepts connections"),
        (TimeoutError(), McpFault.NO_CONNECTION, "cannot be reached (ConnectError)"),
    ],
    ids=["certificate", "no TLS", "host", "refused", "timeout"],
)
def test_why_no_connection_came_about(cause: BaseException, fault: McpFault, message: str) -> None:
    fault_kind, problem = of_connecting(refused(cause))

    assert fault_kind is fault
    assert message in problem


def test_what_a_status_says() -> None:
    faults = {status: of_status(status) for status in (301, 401, 403, 404, 405, 407, 410, 500, 503)}

    assert faults[401] is McpFault.NO_LOGIN
    assert {faults[403], faults[407]} == {McpFault.FORBIDDEN}
    assert {faults[500], faults[503]} == {McpFault.SERVER_ERROR}
    assert {faults[status] for status in (301, 404, 405, 410)} == {McpFault.WRONG_ADDRESS}


@pytest.mark.parametrize(
    ("status", "output", "fault"),
    [
        (127, "there is no program 'npx'", McpFault.NO_PROGRAM),
        (126, "cannot be executed", McpFault.NOT_EXECUTABLE),
        (1, "ModuleNotFoundError: No module named 'shop'", McpFault.NO_PACKAGE),
        (1, "Error: Cannot find module '/srv/server.js'", McpFault.NO_PACKAGE),
        (2, "usage: serve --root FOLDER", McpFault.ENDED),
    ],
)
def test_what_a_programs_end_says(status: int, output: str, fault: McpFault) -> None:
    assert of_exit(status, output) is fault
