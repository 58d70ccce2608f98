"""Send generated requests to a real Callboard for some time, and print what differs from its OpenAPI document.

python -m tests.fuzz --seconds 600
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from config.folders import ROOT
from tests.fuzz import calls
from tests.fuzz.deployment import deployment
from tests.identity_provider.provider import IdentityProvider

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("rest", nargs="*", help="arguments for schemathesis, behind --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, IdentityProvider() as provider:
        status, missed = fuzz(Path(folder), provider, "--max-time", str(options.seconds), *options.rest)
    if missed:
        print(f"no request succeeded: {', '.join(missed)}", file=sys.stderr)
    return status or bool(missed)


def fuzz(folder: Path, provider: IdentityProvider, *arguments: str, output: int | None = None) -> tuple[int, list[str]]:
    """Start a Callboard in this folder and run schemathesis with all its checks.

    Returns its exit status, and the calls of which no request succeeded.
    """
    counts = folder / "counts.json"
    with deployment(folder, provider) as running:
        document = f"{running.origin}/openapi.json"
        command = [
            *(sys.executable, "-m", "schemathesis.cli", f"--config-file={HERE / 'schemathesis.toml'}", "run", document),
            *("--checks", "all", "--continue-on-failure", *arguments),
            *("--request-timeout", "60", "--max-response-time", "40"),  # the limit of a request is 30 s
        ]
        environment = {
            **os.environ,
            "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks",
            "PYTHONPATH": str(ROOT),
            "CALLBOARD_FUZZ_CREDENTIALS": str(running.credentials),
            "CALLBOARD_FUZZ_FACTS": str(running.facts),
            "CALLBOARD_FUZZ_COUNTS": str(counts),
        }
        status = subprocess.run(command, cwd=folder, env=environment, stdout=output, check=False).returncode
        all_calls = [call for call in _calls_in(document) if call != "GET /openapi.json"]  # which schemathesis reads
    answers = calls.read(counts)
    calls.show(answers, Console())
    return status, calls.never_successful(all_calls, answers)


def _calls_in(document: str) -> Iterator[str]:
    with urllib.request.urlopen(document, timeout=30) as answer:
        paths = json.load(answer)["paths"]
    for path, methods in paths.items():
        yield from (f"{method.upper()} {path}" for method in methods)


if __name__ == "__main__":
    sys.exit(main())
