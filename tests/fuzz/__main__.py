"""Send generated requests to a real Callboard for some time, and print what differs from its OpenAPI document.

python -m tests.fuzz --seconds 600
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from config.folders import ROOT
from config.identity.local_token import local_token
from config.settings import Settings
from tests.journeys.up import Up

HERE = Path(__file__).parent
ENVIRONMENT = {
    "CALLBOARD_AUTH": "local",
    "CALLBOARD_PRINCIPAL_REQUESTS_PER_MINUTE": "10000000",
    "CALLBOARD_TENANT_REQUESTS_PER_MINUTE": "10000000",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("rest", nargs="*", help="arguments for schemathesis, behind --")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return fuzz(Path(folder), "--max-time", str(given.seconds), *given.rest)


def fuzz(state: Path, *arguments: str, output: int | None = None) -> int:
    """Start a Callboard in this folder, run schemathesis with all its checks, and return its exit status."""
    with Up(state, "--port", "0", "--workers", "1", **ENVIRONMENT) as up:
        origin = up.address.partition("/#")[0]  # without the token behind it
        command = [
            *(sys.executable, "-m", "schemathesis.cli", f"--config-file={HERE / 'schemathesis.toml'}", "run"),
            *(f"{origin}/openapi.json", "--checks", "all", "--continue-on-failure"),
            *("--request-timeout", "320", "--max-response-time", "310"),  # a start waits for its run as long as asked
            # By GET it is a page, which is no call.
            *("--exclude-path", "/auth/callback"),
            *("--header", f"Authorization: Bearer {local_token(Settings(state_dir=state))}", *arguments),
        ]
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks", "PYTHONPATH": str(ROOT)}
        status = subprocess.run(command, cwd=state, env=environment, stdout=output, check=False).returncode
        up.stop()
    return status


if __name__ == "__main__":
    sys.exit(main())
