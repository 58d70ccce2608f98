"""Tools that list, read and write files in the agent's sandbox folder."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agents.errors import PathRefused
from agents.tools.call_context import current_call
from agents.tools.isolation.sandbox import MAX_LISTED, MAX_PATH, MAX_WRITE, Sandbox
from agents.tools.tool import tool
from config.effects import INWARD, UNTRUSTED
from config.text.names import did_you_mean

FilePath = Annotated[str, Field(max_length=MAX_PATH)]


@tool(effect="pure", timeout_s=20, labels={UNTRUSTED})  # a name may be what an earlier run read
def list_files(folder: FilePath = "") -> dict[str, Any]:
    """List the files in your sandbox folder with their sizes in bytes.

    Args:
        folder: a folder below the sandbox; everything when left out.
    """
    files = Sandbox(current_call().files.for_reading()).files(folder)
    listing: dict[str, Any] = {"files": [{"path": file.path, "bytes": file.size} for file in files]}
    if len(files) == MAX_LISTED:
        listing["note"] = f"only the first {MAX_LISTED} are shown"
    return listing


@tool(effect="pure", timeout_s=20, labels={UNTRUSTED})  # it may hold what an earlier run fetched
def read_file(path: FilePath) -> str:
    """Read a text file from your sandbox folder.

    Args:
        path: the file, from the sandbox folder, for example notes.txt or reports/may.md.
    """
    sandbox = Sandbox(current_call().files.for_reading())
    try:
        return sandbox.read_text(path)
    except PathRefused as error:
        if "no such file" not in str(error):
            raise
        names = [file.path for file in sandbox.files()]
        text = f" The files are: {', '.join(names[:20])}." if names else " The sandbox is empty."
        raise PathRefused(f"{error}{did_you_mean(path, names)}{text}") from error


@tool(effect="idempotent", timeout_s=20, labels={INWARD})
def write_file(path: FilePath, text: Annotated[str, Field(max_length=MAX_WRITE)]) -> dict[str, Any]:
    """Write a text file into your sandbox folder; what the file held before is replaced.

    Args:
        path: the file, from the sandbox folder, for example notes.txt or reports/may.md.
        text: the whole new content.
    """
    call = current_call()
    sandbox = Sandbox(call.files.for_writing(), quota=call.quota)
    return {"path": path, "bytes": sandbox.write_text(path, text)}
