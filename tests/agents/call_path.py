"""Prints the files that a governed call of a tool passes: `PYTHONPATH=. .venv/bin/python -m tests.agents.call_path`.

Counted are the files of `agents/` one of whose functions is entered between the beginning of a run of kind ``tool`` and
the commit of its result: without a model's calls before and behind it, and without the journal and the libraries below.
The policy, the guardrails and a remote engine decide about the call. A process of its own, since the profile has to be
set before the threads of the journal and of tools begin.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from config.folders import ROOT

AGENTS = str(ROOT / "agents") + "/"
KIT = str(ROOT / "agents" / "testing.py")
files: set[str] = set()
is_counting = False


def note(frame: FrameType, event: str, _: object) -> None:
    """Note the file of a function that is entered; a coroutine that continues was entered before."""
    code = frame.f_code
    is_entered = event == "call" and (frame.f_lasti < 0 or code.co_code[frame.f_lasti + 1] == 0)
    if is_counting and is_entered and code.co_filename.startswith(AGENTS) and code.co_filename != KIT:
        files.add(code.co_filename.removeprefix(str(ROOT) + "/"))


def main() -> None:
    """Make the call twice, and count the second one: the first has what is done once a process."""
    threading.setprofile(note)
    sys.setprofile(note)
    from agents.testing import AgentKit
    from agents.tool_run import ToolRun
    from agents.tools.tool import tool
    from bus.journal.log.writer import RunWriter
    from tests.agents.governance.engine.engine_server import EngineServer

    @tool(effect="unsafe")
    def send(text: str) -> str:
        """Send a text."""
        return f"sent {text}"

    begin, commit = ToolRun.begin, RunWriter.commit
    calls: list[object] = []

    def beginning(run: ToolRun) -> Any:
        global is_counting
        calls.append(run)
        is_counting = len(calls) == 2
        return begin(run)

    async def committing(writer: RunWriter, change: Any, *more: Any) -> Any:
        global is_counting
        numbered = await commit(writer, change, *more)
        is_counting = is_counting and not change.ended
        return numbered

    for owner, name, replacement in ((ToolRun, "begin", beginning), (RunWriter, "commit", committing)):
        setattr(owner, name, replacement)  # in this process alone
    with EngineServer() as engine, AgentKit(tools=[send], settings={"governance_url": engine.url}) as kit:
        agent = kit.agent(tools=["send"])
        for _ in range(2):
            kit.runner.settle(20)  # what follows the first one's end
            assert kit.runner.call_tool("send", {"text": "hello"}, agent_id=agent).result(20).status == "succeeded"
    print("\n".join(sorted(files)))


if __name__ == "__main__":
    main()
