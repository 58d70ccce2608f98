"""Run a module of the tests, such as a measurement, as a process of its own."""

from __future__ import annotations

import signal
import subprocess

from cli.supervisor.child import guarded
from cli.supervisor.serving import clean_environment, python
from config.folders import ROOT


def run_apart(module: str, *flags: str) -> int:
    """Run the module with default settings, and return its exit status; it prints what it finds."""
    process = subprocess.Popen(guarded((*python(module), *flags), signal.SIGINT), cwd=ROOT, env=clean_environment())
    try:
        return process.wait()
    except KeyboardInterrupt:  # the terminal signals the child too, which ends what it started
        process.wait()
        raise
