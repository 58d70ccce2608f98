"""The page's modules, run by Node without a page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from config.folders import ROOT
from tests.conftest import need

Module = Callable[[str, Any], Any]
SCRIPT = """
import {{ readFileSync }} from "node:fs";
const page = "file://{static}";
globalThis.requestAnimationFrame = (job) => setTimeout(job, 0);
const frame = () => new Promise((resolve) => setTimeout(resolve, 5));
const argument = JSON.parse(readFileSync(0, "utf8"));
const work = async () => {{ {body} }};
console.log(JSON.stringify(await work()));
"""


@pytest.fixture(scope="session")
def module() -> Module:
    """Runs the body of an async function over its ``argument``, and returns what it returns."""
    node = need(shutil.which("node"), "node, which runs the page's modules,")

    def run(body: str, argument: Any) -> Any:
        script = SCRIPT.format(static=ROOT / "web" / "static", body=body)
        command = (node, "--input-type=module", "-e", script)
        ran = subprocess.run(
            command, input=json.dumps(argument), capture_output=True, text=True, check=False, timeout=60
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run
