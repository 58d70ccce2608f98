"""What a model writes into the sandbox is read by no interpreter and no tool that a call starts."""

import asyncio
import json
import os
import sys
from pathlib import Path

import anyio
import pytest

from agents.tools.call_context import enter_call
from agents.tools.files import write_file
from agents.tools.isolation.guarded import ProcessLimits
from agents.tools.mcp.connection.stdio import StdioConnection
from agents.tools.mcp.connection.traffic import Traffic
from agents.tools.runners.calling import ProcessRunner
from agents.tools.runners.container import Container, ContainerRunner
from config.definitions.mcp.server import McpServerDefinition
from config.settings.container_engine import Engine

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]

PACKAGES = f".local/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
PLANTED = {
    f"{PACKAGES}/planted.pth": "import os",
    f"{PACKAGES}/usercustomize.py": "",
    "sitecustomize.py": "",
    "json/__init__.py": "",
    ".pythonrc": "",
    ".bashrc": "",
    ".profile": "",
    ".gitconfig": "[core]",
    ".git/config": "[core]",
    ".npmrc": "loglevel=silent",
    "node_modules/planted/index.js": "",
    ".netrc": "machine 127.0.0.1 login x password y",
    ".curlrc": "silent",
    ".sqliterc": "SELECT 1;",
}
READERS = """
python3 -c 'import json, netrc; netrc.netrc()'
python3 -m json </dev/null
bash -i -c true
bash -l -c true
git config --list
git status
npm config list
node -e 'require("planted")'
curl --netrc http://127.0.0.1:1/
echo .quit | sqlite3 :memory:
"""
"""What reads the files above in its home or its working folder; what the machine lacks is left out."""


@pytest.fixture
def planted(context):
    """The sandbox with the files above, as the tool ``write_file`` writes them."""
    enter_call(context)
    for path, text in PLANTED.items():
        write_file(path, text)
        os.utime(context.sandbox / path, ns=(0, (context.sandbox / path).stat().st_mtime_ns))
    return context.sandbox


ROOM = ProcessLimits(memory_mb=65_536)  # node reserves address space


def read_files(sandbox):
    """Return the planted files that were read: the time of access of a file that is older than itself changes."""
    return [path for path in PLANTED if (sandbox / path).stat().st_atime_ns != 0]


def test_no_planted_file_is_read_by_a_program(planted, context):
    script = f"exec 3>&1 >/dev/null 2>&1\n{READERS}\necho true >&3"
    runner = ProcessRunner(folders=planted.parent / "calls", command=["/bin/bash", "-c", script], limits=ROOM)

    async def called():
        enter_call(context)
        return await runner.call()

    assert asyncio.run(called())
    assert read_files(planted) == []
    (planted / ".bashrc").read_text()
    assert read_files(planted) == [".bashrc"], "the file system keeps no times of access"


SAY = "import json, os, sys; print(json.dumps([os.getcwd(), os.environ.get('HOME', '')]), file=sys.{})"


def folders_below(sandbox, paths):
    return [folder for folder in paths if Path(folder).is_relative_to(sandbox)]


def test_a_container_engine_does_not_begin_in_the_sandbox(planted, context, tmp_path):
    engine = tmp_path / "podman"
    engine.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{SAY.format("stdout")}"\n')
    engine.chmod(0o755)
    runner = ContainerRunner(engine=Engine(command=(str(engine),)), container=Container(image="x"))

    async def called():
        enter_call(context)
        return await runner.call()

    assert folders_below(planted, asyncio.run(called())) == []


def test_an_mcp_server_does_not_begin_in_the_sandbox(planted, context, tmp_path):
    words = ("-c", SAY.format("stderr"))
    server = McpServerDefinition(name="x", file=str(tmp_path / "x.yaml"), command=sys.executable, args=words)
    connection = StdioConnection(server, server.environment(), Traffic(1000))

    async def called():
        enter_call(context)
        async with connection as (inbound, _):
            with pytest.raises(anyio.EndOfStream):
                await inbound.receive()

    asyncio.run(called())
    assert folders_below(planted, json.loads(connection.said)) == []
