"""An engine on a real socket, and a run that asks it."""

import asyncio

import orjson
import pytest
from pydantic import SecretStr

from agents.governance.engine.governance import Governance, GovernedCall, GovernedRun
from agents.governance.engine.remote import RemoteEngine
from config.effects import Effect
from tests.config.egress.peer import Peer, says

RUN = GovernedRun(
    run_id="run_1",
    thread_id="thread_1",
    agent_id="helper",
    tenant="acme",
    principal="ann",
    queue="runs",
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    correlation_id="order 4711",
)


def calls(effect=Effect.PURE, **arguments):
    return GovernedCall(
        step_id="step_1", call_id="call_1", point="tool", name="book", arguments=arguments, effect=effect
    )


@pytest.fixture
def ask():
    """Ask about a call while an engine answers by a script; a mapping or bytes is an answer of status 200."""

    def ask(script, call=None, when_silent="by_effect", timeout_s=2.0, **after):
        scripted = script if callable(script) else says(script if isinstance(script, bytes) else orjson.dumps(script))

        async def run():
            async with Peer(scripted) as peer:
                engine = RemoteEngine(peer.url("127.0.0.1", "/core/"), SecretStr("obx_key_123"), timeout_s)
                governance = Governance(engine, RUN, when_silent)
                governed_call = call or calls(room="A 12")
                judged = await (governance.after(governed_call, **after) if after else governance.before(governed_call))
                return judged, peer.asked

        return asyncio.run(run())

    return ask
