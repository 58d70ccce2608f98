"""What happens when a message arrives: one short file a message, and what a worker process needs.

`ls handlers/` is all the system can be asked to do. Nothing here thinks; that is the agents' business.
"""

import runpy
import sys
from pathlib import Path

if not hasattr(sys.modules.get("config"), "folders"):  # another project's `config` may stand in for ours
    runpy.run_path(str(Path(__file__).parents[1] / "config" / "folders.py"), run_name="config.folders")["require"]()
