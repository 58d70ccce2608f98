"""The runner, the agent loop, models and tools, and what governs their calls: policy, guardrails, remote engine.

Nothing here depends on which observers exist (the invoker calls them) or on the transport of a message.
"""

import runpy
import sys
from pathlib import Path

if not hasattr(sys.modules.get("config"), "folders"):  # another project's `config` may stand in for ours
    runpy.run_path(str(Path(__file__).parents[1] / "config" / "folders.py"), run_name="config.folders")["require"]()
