"""Heads of the audit log are read back from the files they are in, unless a line is not signed by the installation."""

from __future__ import annotations

import io
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from bus.identity.audit.anchors import WORDS, AuditHead, anchors_in, signature_of
from config.logs import acting_for, line_format
from config.settings import Settings

SECRET, DIGEST = "5e" * 32, "a1" * 32
AT = "2026-11-22T20:00:00.123Z"


def signed(tenant: str = "acme", secret: str = SECRET) -> AuditHead:
    signature = signature_of(secret, tenant, 7, DIGEST)
    return AuditHead(tenant=tenant, number=7, digest=DIGEST, signature=signature, at=AT)


HEAD = signed()


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("child", ["", "worker-1  "])
@pytest.mark.parametrize("tenant", ["acme", "ops+eu@example.org"])
@pytest.mark.parametrize("context", [None, ("zeta", "ann@example.org")], ids=["process", "principal"])
def test_the_applications_log_is_read_back(
    settings: Settings, tmp_path: Path, log_format: str, child: str, tenant: str, context: tuple[str, str] | None
) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(line_format(settings.model_copy(update={"log_format": log_format}), "worker-1"))
    entry = logging.LogRecord("observers.audit_heads", logging.INFO, "", 0, WORDS, None, None)
    vars(entry).update(signed(tenant).facts())
    token = acting_for.set(context)
    handler.emit(entry)
    acting_for.reset(token)
    file = tmp_path / "up.log"
    file.write_text(f"{child}something else\n{child}{stream.getvalue()}")

    found_all = anchors_in([file], SECRET)

    (anchor,) = found_all.signed
    assert found_all.skipped == 0
    assert (anchor.tenant, anchor.number, anchor.digest) == (tenant, 7, DIGEST)
    assert anchor.place == f"{file}:2"


FORGED = [
    f"2026-11-22T20:00:00.123Z  run_1  3  assistant  message  {HEAD.text_line()}",
    f"2026-11-22T20:00:00.123Z INFO    web gunicorn.access {WORDS} tenant=acme number=9 digest={DIGEST}",
    f"2026-11-22T20:00:00.123Z  run_1 {HEAD.json_line()}",
    f"{WORDS} tenant=acme number=9 digest={DIGEST}",
    '{"type":"message","content":"audit head"}',
    '{"audit head": ',
    '{"type":"audit head"}',
    f'{{"type":"audit head","tenant":"acme","number":"9","digest":"{DIGEST}"}}',
    f'{{"type":"audit head","tenant":["acme"],"number":9,"digest":"{DIGEST}"}}',
    '{"type":"audit head","tenant":"acme","number":9,"digest":"a1"}',
    f"{HEAD.text_line()}{'x' * 3000}",
]


@pytest.mark.parametrize("line", FORGED)
def test_what_a_client_wrote_is_no_anchor(tmp_path: Path, line: str) -> None:
    file = tmp_path / "runs-0.log"
    file.write_text(f"{line}\n")

    anchors = anchors_in([file], SECRET)

    assert (anchors.signed, anchors.skipped) == ([], 0)


@pytest.mark.parametrize("line", [HEAD.text_line(), HEAD.json_line()], ids=["text", "json"])
def test_the_logger_observers_line_is_read_back(tmp_path: Path, line: str) -> None:
    file = tmp_path / "runs-0.log"
    file.write_text(f"{line}\n")

    anchors = anchors_in([file], SECRET)

    assert [(anchor.tenant, anchor.number, anchor.digest) for anchor in anchors.signed] == [("acme", 7, DIGEST)]
    assert anchors.skipped == 0


UNSIGNED = {
    "of an earlier release": f"{AT}  {WORDS} tenant=acme number=7 digest={DIGEST}",
    "with another signature": signed(secret="77" * 32).text_line(),
    "of another tenant": replace(HEAD, tenant="zeta").text_line(),
    "of another entry": replace(HEAD, number=8).text_line(),
    "with another digest": replace(HEAD, digest="b2" * 32).json_line(),
    "without a signature, in JSON": HEAD.json_line().partition(',"signature')[0] + "}",
    "with a list for a signature": HEAD.json_line().partition('"signature"')[0] + '"signature":[1]}',
    "not of hexadecimal digits": replace(HEAD, signature="é" * 10).text_line(),
}


@pytest.mark.parametrize("line", UNSIGNED.values(), ids=UNSIGNED)
def test_what_a_tool_printed_is_counted_and_skipped(tmp_path: Path, line: str) -> None:
    file = tmp_path / "up.log"
    file.write_text(f"worker-1  {line}\nworker-1  {HEAD.text_line()}\n")

    anchors = anchors_in([file], SECRET)

    assert [anchor.place for anchor in anchors.signed] == [f"{file}:2"]
    assert anchors.skipped == 1


def test_an_installation_without_a_secret_has_signed_nothing(tmp_path: Path) -> None:
    file = tmp_path / "up.log"
    file.write_text(f"{HEAD.text_line()}\n{replace(HEAD, signature='').json_line()}\n")

    anchors = anchors_in([file], None)

    assert (anchors.signed, anchors.skipped) == ([], 2)
