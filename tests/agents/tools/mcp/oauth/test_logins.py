"""Logins at a server: calls with their tokens, renewal, revocation, and whose they are."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from agents.catalogue import forget
from agents.errors import McpLoginNeeded, McpServerDown
from agents.testing import AgentKit
from agents.tools.mcp.oauth.login import log_out
from agents.tools.mcp.oauth.tokens import LoginTokens
from agents.tools.mcp.pool import McpPool, mcp_pool
from agents.tools.mcp.server_states import McpState
from bus.loop import process_loop
from bus.payloads import ToolResultPayload
from config.database.tables import mcp_logins
from config.redaction import redact
from tests.agents.tools.mcp.conftest import Run, said
from tests.agents.tools.mcp.oauth.conftest import Define, LogIn, process, sealer
from tests.agents.tools.mcp.oauth.login_server import LoginServer

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]


def whoami(kit: AgentKit, tool: str = "whoami") -> Any:
    handle = kit.runner.call_tool(tool, {}, agent_id="tester")
    handle.result(30)
    return next(event.result for event in handle.events() if isinstance(event, ToolResultPayload))


def state() -> Any:
    async def found() -> Any:
        return mcp_pool().states()["guarded"].state

    return process_loop().run(found())


def test_an_agent_uses_a_login_whose_tokens_are_sealed_and_in_no_log(
    kit: AgentKit, login: LogIn, guarded: LoginServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    login()

    assert whoami(kit) == "ann"
    with process().journal.database.read() as connection:
        row = str(connection.execute(mcp_logins.select()).one())
    secrets = [*guarded.tokens, *guarded.refreshes]
    assert len(secrets) == 2
    assert not [secret for secret in secrets if secret in row or secret in caplog.text]


def test_the_flow_has_what_the_specification_asks_for(kit: AgentKit, login: LogIn, guarded: LoginServer) -> None:
    login()

    forms = {path: form for path, form, _ in guarded.asked}
    assert forms["/authorize"]["code_challenge_method"] == "S256"
    assert forms["/authorize"]["resource"] == guarded.url
    assert forms["/authorize"]["scope"] == "read"
    assert forms["/authorize"]["redirect_uri"].startswith("http://127.0.0.1:")
    assert forms["/token"]["resource"] == guarded.url
    assert forms["/register"]["client_name"] == "Callboard"


def test_without_a_login_a_call_says_what_to_run(kit: AgentKit, login: LogIn, guarded: LoginServer) -> None:
    login()
    assert whoami(kit) == "ann"
    process().journal.stores.mcp_logins.end("default", "guarded", by="local")

    assert "run `./callboard mcp login guarded`" in str(whoami(kit))
    assert "The call was not made." in str(whoami(kit))
    assert state() is McpState.NEEDS_LOGIN
    login("bob")
    assert whoami(kit) == "bob"


def test_calls_at_once_renew_an_expired_token_once(
    kit: AgentKit, login: LogIn, guarded: LoginServer, run: Run, define: Define
) -> None:
    guarded.lifetime_s = 0
    login()
    guarded.lifetime_s = 3600

    async def use(pool: McpPool) -> list[str]:
        calls = (pool.call("default", define(), "whoami", {}) for _ in range(20))
        return [said(result) for result in await asyncio.gather(*calls)]

    assert run(use) == ["ann"] * 20
    assert len(guarded.asked_for("refresh_token")) == 1
    (form,) = guarded.asked_for("refresh_token")
    assert form["resource"] == guarded.url


def test_a_long_call_keeps_no_other_waiting(login: LogIn, run: Run, define: Define) -> None:
    login()

    async def use(pool: McpPool) -> list[str]:
        order: list[str] = []

        async def call(name: str) -> None:
            await pool.call("default", define(), name, {})
            order.append(name)

        await pool.tools("default", define())
        await asyncio.gather(call("slow"), call("whoami"))
        return order

    assert run(use) == ["whoami", "slow"]


def test_of_several_processes_one_renews(kit: AgentKit, login: LogIn, guarded: LoginServer, define: Define) -> None:
    guarded.lifetime_s = 0
    login()
    guarded.lifetime_s = 3600

    async def use() -> list[str]:
        processes = [LoginTokens("default", define()) for _ in range(5)]
        return await asyncio.gather(*(process.current() for process in processes))

    assert len(set(asyncio.run(use()))) == 1
    assert len(guarded.asked_for("refresh_token")) == 1


def test_a_token_that_the_server_no_longer_takes_is_renewed(kit: AgentKit, login: LogIn, guarded: LoginServer) -> None:
    login()
    assert whoami(kit) == "ann"
    guarded.revoke("ann", everything=False)

    assert whoami(kit) == "ann"
    assert guarded.sessions == ["ann"]


def test_of_the_tokens_of_a_login_the_newest_are_redacted(
    kit: AgentKit, login: LogIn, guarded: LoginServer, define: Define
) -> None:
    guarded.lifetime_s = 0
    login()

    async def use() -> None:
        tokens = LoginTokens("default", define())
        for _ in range(6):
            await tokens.current()

    asyncio.run(use())

    of_command, *renewed = guarded.tokens
    assert [token for token in guarded.tokens if redact(token) != token] == [of_command, *renewed[-2:]]
    assert [token for token in guarded.refreshes if redact(token) != token] == list(guarded.refreshes)


def test_a_renewal_goes_on_when_its_caller_is_cancelled(
    kit: AgentKit, login: LogIn, guarded: LoginServer, define: Define
) -> None:
    guarded.lifetime_s = 0
    login()
    guarded.lifetime_s = 3600

    async def use() -> str:
        tokens = LoginTokens("default", define())
        first = asyncio.ensure_future(tokens.current())
        while not guarded.asked_for("refresh_token"):
            await asyncio.sleep(0)
        first.cancel()
        return await tokens.current()

    assert asyncio.run(use()) in guarded.tokens
    assert len(guarded.asked_for("refresh_token")) == 1


def test_a_revoked_login_is_removed_and_not_tried_again(kit: AgentKit, login: LogIn, guarded: LoginServer) -> None:
    login()
    assert whoami(kit) == "ann"
    guarded.revoke("ann")

    assert "the login has ended" in str(whoami(kit))
    assert process().journal.stores.mcp_logins.find("default", "guarded") is None
    assert "mcp login guarded" in str(whoami(kit))
    assert len(guarded.asked_for("refresh_token")) == 1


def test_an_authorization_server_that_fails_does_not_end_the_login(
    kit: AgentKit, login: LogIn, guarded: LoginServer
) -> None:
    guarded.lifetime_s = 0
    login()
    guarded.overrides["/token"] = (503, {}, b"later")

    assert "HTTP 503" in str(whoami_without_cache(kit))
    guarded.overrides.clear()
    guarded.lifetime_s = 3600
    assert whoami_without_cache(kit) == "ann"


def whoami_without_cache(kit: AgentKit) -> Any:
    """Call in a way that needs no list of tools."""

    async def asked() -> Any:
        from config.definitions.mcp.server import read_servers

        servers, _ = read_servers(process().settings.mcp_servers_folders)
        pool = McpPool()
        try:
            return said(await pool.call("default", servers["guarded"], "whoami", {}))
        except Exception as error:
            return error
        finally:
            await pool.close()

    return process_loop().run(asked())


def test_each_tenant_has_a_login_of_its_own(
    kit: AgentKit, login: LogIn, guarded: LoginServer, run: Run, define: Define
) -> None:
    login("ann", "default")
    login("bob", "acme")

    async def use(pool: McpPool) -> list[Any]:
        answers: list[Any] = [said(await pool.call(tenant, define(), "whoami", {})) for tenant in ("default", "acme")]
        with pytest.raises(McpLoginNeeded, match="mcp login guarded --tenant other"):
            await pool.call("other", define(), "whoami", {})
        return answers

    assert run(use) == ["ann", "bob"]
    assert guarded.sessions == ["ann", "bob"]


def test_another_login_gets_another_session(kit: AgentKit, login: LogIn, guarded: LoginServer) -> None:
    login("ann")
    assert whoami(kit) == "ann"
    login("bob")

    assert whoami(kit) == "bob"
    assert guarded.sessions == ["ann", "bob"]


def test_tokens_go_to_no_other_address_than_that_of_the_login(
    kit: AgentKit, login: LogIn, guarded: LoginServer, define: Define
) -> None:
    login()
    define(url=f"{guarded.origin}/elsewhere")

    assert "its file has changed" in str(whoami_without_cache(kit))


def test_a_row_that_was_moved_cannot_be_read(kit: AgentKit, login: LogIn, define: Define) -> None:
    login()
    with process().journal.database.write() as connection:
        connection.execute(mcp_logins.update().values(tenant="acme"))

    with pytest.raises(McpLoginNeeded, match="cannot be read"):
        asyncio.run(LoginTokens("acme", define()).current())


def test_after_a_logout_the_tokens_are_revoked_and_not_used(
    kit: AgentKit, login: LogIn, guarded: LoginServer, define: Define
) -> None:
    login()
    assert whoami(kit) == "ann"

    done = asyncio.run(log_out(process().journal.stores.mcp_logins, sealer(), "default", define(), by="local"))

    assert done == "Its tokens were revoked."
    assert (guarded.tokens, guarded.refreshes) == ({}, {})
    assert "needs a login" in str(whoami(kit))
    assert asyncio.run(log_out(process().journal.stores.mcp_logins, sealer(), "default", define(), by="local")) is None
    forget()


def test_a_server_that_has_logins_says_so_where_its_file_does_not(
    run: Run, define: Define, guarded: LoginServer
) -> None:
    server = define().model_copy(update={"oauth": None})

    with pytest.raises(McpServerDown, match="its file needs `oauth"):
        run(lambda pool: pool.call("default", server, "whoami", {}))
