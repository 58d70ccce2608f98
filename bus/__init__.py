"""Messages, event payloads, routes, Celery, the journal of runs, steps and events, and the identities' tables.

Nothing here imports an agent, a tool, a model or the page: the bus transports messages without interpreting them.
"""

import runpy
import sys
from pathlib import Path

if not hasattr(sys.modules.get("config"), "folders"):  # another project's `config` may stand in for ours
    runpy.run_path(str(Path(__file__).parents[1] / "config" / "folders.py"), run_name="config.folders")["require"]()
