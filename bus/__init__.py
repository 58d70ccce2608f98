"""The post office: messages, payloads, routes, Celery; and the journal of runs, steps and events.

It knows who gets a letter, never what is in it: no agent, tool, model or page is imported here.
"""

import runpy
import sys
from pathlib import Path

if not hasattr(sys.modules.get("config"), "folders"):  # another project's `config` may stand in for ours
    runpy.run_path(str(Path(__file__).parents[1] / "config" / "folders.py"), run_name="config.folders")["require"]()
