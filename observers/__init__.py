"""Observers: plugins that get every event of a run, in order, and cannot change the run.

Observers import payloads and the hot log, never agents or the dispatcher.
"""

import runpy
import sys
from pathlib import Path

if not hasattr(sys.modules.get("config"), "folders"):  # another project's `config` may stand in for ours
    runpy.run_path(str(Path(__file__).parents[1] / "config" / "folders.py"), run_name="config.folders")["require"]()
