"""What no runner can end: a plain function whose call was given up."""

import asyncio
import sys

import pytest

from agents.errors import ToolTimeout
from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import AbandonedCalls, call_tool
from agents.tools.isolation.call_folder import CallSandbox

MODULE = '''
import threading

gate = threading.Event()


def wait() -> str:
    """Wait."""
    gate.wait(30)
    return "late"
'''


def test_a_plain_function_continues_after_its_time_and_is_shown_until_it_ends(
    declare, find, folder, tmp_path, monkeypatch
):
    calls = AbandonedCalls()
    monkeypatch.setattr("agents.tools.execution.executor.ABANDONED", calls)
    (folder / "shop_waits.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("config.settings.agents.AgentSettings.tool_module_names", ("shop_waits",))
    declare(runner={"type": "function", "path": "shop_waits:wait"}, input_schema=None)
    tool, context = (
        find(),
        ToolContext(
            run_id="r",
            thread_id="t",
            call_id="call_1",
            idempotency_key="k",
            tenant="default",
            principal="local",
            files=CallSandbox(tmp_path / "sandbox"),
        ),
    )

    async def given_up():
        with pytest.raises(ToolTimeout):
            await call_tool(tool, {}, context, 0.05)
        meanwhile = calls.counts()
        sys.modules["shop_waits"].gate.set()
        while calls.counts():
            await asyncio.sleep(0.01)
        return meanwhile

    assert asyncio.run(given_up()) == {"count_words": 1}
