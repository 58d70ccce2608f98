"""Everything that thinks: runner, loop, models and tools.

It may not know who listens (observers are called through the invoker) or how a message arrived.
"""

import runpy
import sys
from pathlib import Path

if not hasattr(sys.modules.get("config"), "folders"):  # another project's `config` may stand in for ours
    runpy.run_path(str(Path(__file__).parents[1] / "config" / "folders.py"), run_name="config.folders")["require"]()
