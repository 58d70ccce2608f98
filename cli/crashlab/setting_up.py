"""Set up a lab in a temporary folder: a copy of the agent, an empty database to copy, everything imported."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import orjson
import yaml

from agents.catalogue import tools_of, wrap_tools
from agents.models.call import is_in_process
from bus.gc_tuning import freeze_gc
from cli.crashlab.ledger import watched
from config.database.migrate import migrate
from config.definitions.agent import AgentDefinition
from config.settings import Settings, read_settings
from handlers.worker.warm_up import warm_up_to_fork

LEASE_S = 15.0 if sys.platform == "linux" else 2.0
"""On Linux the reaper sees that a process has ended; elsewhere it has to wait for the lease to expire."""
BEAT_S = REAP_S = 0.3


def lab_settings(folder: Path, agents_dir: str) -> Settings:
    """Return the user's settings with all files in ``folder``, and no Redis."""
    return read_settings(
        state_dir=folder,
        database_url=None,
        redis_url=None,
        broker_url=None,
        deployment="crashtest",
        agents_dir=agents_dir,
        lease_s=LEASE_S,
        beat_s=BEAT_S,
        reap_s=REAP_S,
    )


def copy_agent(definition: AgentDefinition, model: str, folder: Path) -> str:
    """Write a copy of the agent with ``model`` and return its folder, so that later edits change no case."""
    folder.mkdir()
    content = orjson.loads(definition.content_json) | {"model": model}
    content.pop("fallbacks", None)  # the answers of another model cannot be compared
    text = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
    (folder / f"{definition.id}.yaml").write_text(text)
    return str(folder)


class SqliteTemplate:
    """An empty SQLite database with its schema, created once; each case copies it."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._file = folder / "template.db"
        migrate(settings.model_copy(update={"state_dir": folder, "database_url": f"sqlite:///{self._file}"}))

    def __call__(self, folder: Path) -> str:
        copied = folder / "callboard.db"
        shutil.copyfile(self._file, copied)
        return f"sqlite:///{copied}"


def warm(definition: AgentDefinition, model: str, settings: Settings) -> None:
    """Import what every child needs to ask ``model``, and record the tools' calls in the ledger.

    Raises:
        ToolUnknown, DefinitionInvalid: the agent's tools cannot be built.
    """
    wrap_tools(watched)
    tools_of(definition, settings)
    if not is_in_process(model):
        warm_up_to_fork()
    freeze_gc()  # what children share they do not copy
