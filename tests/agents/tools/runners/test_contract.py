"""What holds for a call whichever runner carries it out."""

import asyncio
import time
import tracemalloc

import psutil
import pytest

from agents.errors import ToolTimeout
from agents.tools.isolation.errors import OUTPUT_NOT_JSON, OUTPUT_TOO_LONG, CapabilityFailed
from config.errors import ModelVisible, ToolCutOff
from tests.agents.tools.runners.conftest import CONTEXTS
from tests.agents.tools.runners.machines import eventually, processes_with
from tests.raising import raises

pytestmark = [pytest.mark.parity, pytest.mark.timeout(120)]

PROGRAMS = pytest.mark.parametrize("kind", ["process", "container"], indirect=True)
OUTSIDE = pytest.mark.parametrize("kind", ["process", "container", "http"], indirect=True)


def test_json_goes_in_and_json_comes_out_in_any_script(bench):
    arguments = {"text": 'Grüße 你好 🎈 " \\ \n', "deep": [1, {"a": None}], "number": 2**53}

    assert bench.call("echo", **arguments) == {"do": "echo", **arguments}


@PROGRAMS
def test_a_program_gets_the_contexts_of_its_call(bench):
    assert bench.call("contexts") == CONTEXTS


def test_a_large_input_arrives_whole(bench):
    assert bench.call("size", text="é" * 400_000) > 400_000


def test_a_failure_is_told_with_its_reason(bench):
    with pytest.raises(ModelVisible, match="the reason: kein Fünfer"):
        bench.call("fail")


@OUTSIDE
@pytest.mark.parametrize("do", ["not_json", "nothing"])
def test_an_output_that_is_not_json_is_an_error_and_no_result(bench, do):
    with raises(OUTPUT_NOT_JSON):
        bench.call(do)


@OUTSIDE
def test_a_hundred_megabytes_cost_the_limit_and_no_more(bench):
    bench.call("echo")  # imports what its runner needs
    tracemalloc.start()  # the peak of a process that has run 2,000 other tests moves by megabytes for their sake

    try:
        with raises(OUTPUT_TOO_LONG):
            bench.call("flood")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 10_000_000
    assert bench.left() == []


@pytest.mark.parametrize("do", ["sleep", "stubborn"])
def test_a_call_whose_time_is_up_leaves_nothing_behind(bench, do):
    began_s = time.monotonic()

    with pytest.raises(ToolTimeout):
        bench.call(do, timeout_s=1.0)

    assert time.monotonic() - began_s < 10
    assert bench.left() == []


@pytest.mark.parametrize("do", ["sleep", "stubborn"])
def test_a_call_that_is_cancelled_leaves_nothing_behind(bench, do):
    async def cancelled():
        task = asyncio.create_task(bench.awaited(do))
        await asyncio.sleep(0.7)
        task.cancel()
        await asyncio.wait([task])
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            await asyncio.wait(rest, timeout=20)
        return task.cancelled()

    assert asyncio.run(cancelled())
    assert bench.left() == []


@PROGRAMS
def test_children_and_grandchildren_end_with_the_call(bench):
    with pytest.raises(ToolTimeout):
        bench.call("family", timeout_s=1.0)

    assert bench.left() == []


@PROGRAMS
def test_a_daemon_in_a_session_of_its_own_ends_with_the_call(bench):
    assert bench.call("daemon") == "left one behind"

    assert bench.left() == []


@PROGRAMS
def test_the_end_of_a_long_standard_error_is_shown(bench):
    with pytest.raises(CapabilityFailed) as caught:
        bench.call("chatter")

    assert str(caught.value).endswith("the last line")
    assert "status 4" in str(caught.value)
    assert len(str(caught.value)) < 2_000


@PROGRAMS
def test_closing_the_output_early_does_not_end_the_call_early(bench):
    began_s = time.monotonic()

    with raises(OUTPUT_NOT_JSON):
        bench.call("close")

    assert time.monotonic() - began_s > 0.3


@PROGRAMS
def test_a_program_that_a_signal_ended_may_have_taken_effect(bench):
    with pytest.raises(ToolCutOff, match="signal 9"):
        bench.call("die")


@PROGRAMS
def test_a_program_has_its_own_secret_and_none_of_the_workers(bench, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-provider-123456")

    seen = bench.call("environment")

    assert "SHOP_TOKEN=tok-en-123456789" in seen
    assert "CALLBOARD_CONFIG={_unit_:_cm_}" in seen
    assert f"CALLBOARD_IDEMPOTENCY_KEY={bench.context.idempotency_key}" in seen
    assert "provider" not in seen
    assert "TEST_SHOP_TOKEN" not in seen


@PROGRAMS
def test_no_process_list_shows_a_secret(bench):
    async def lines():
        task = asyncio.create_task(bench.awaited("sleep"))
        mark = f"CALLBOARD_RUN_ID={bench.context.run_id}"
        await asyncio.to_thread(eventually, lambda: len(processes_with(mark)) > 1)
        await asyncio.sleep(0.3)
        command_lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
        task.cancel()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=20)
        return command_lines

    assert [line for line in asyncio.run(lines()) if "tok-en-123456789" in line] == []


def test_many_calls_at_once_end_well(bench):
    async def all_of_them():
        return await asyncio.gather(*(bench.awaited("echo", number=number) for number in range(6)))

    assert [result["number"] for result in asyncio.run(all_of_them())] == list(range(6))
    assert bench.left() == []
