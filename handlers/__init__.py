"""Handlers of messages, one file each, and the parts of a worker process in ``worker/``.

The files here are the list of commands of the system. The work itself is in ``agents``.
"""

import runpy
import sys
from pathlib import Path

if not hasattr(sys.modules.get("config"), "folders"):  # another project's `config` may shadow Callboard's
    runpy.run_path(str(Path(__file__).parents[1] / "config" / "folders.py"), run_name="config.folders")["require"]()
