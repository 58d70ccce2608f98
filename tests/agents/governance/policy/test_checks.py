"""What is suspicious about a policy: names that nothing in the deployment has."""

from __future__ import annotations

from typing import Any

import pytest

from agents.governance.policy.checks import KnownTool, Vocabulary, warnings_of
from agents.governance.policy.errors import PolicyInvalid


def tool(name: str, *arguments: str, identity: str = "", labels: tuple[str, ...] = ()) -> KnownTool:
    return KnownTool(name=name, identity=identity, arguments=frozenset(arguments), labels=frozenset(labels))


TOOLS = (
    tool("refund", "cents", "boxes"),
    tool("look", "place", labels=("pages",)),
    tool("send_mail", "to", identity="mcp:mailer/send_mail"),
    tool("evil_send_mail", "to", identity="mcp:evil/send_mail"),
    tool("read", "path", identity="mcp:files/read"),
)
KNOWN = Vocabulary(tools=TOOLS, agents=frozenset({"office"}))
BLOCK: dict[str, Any] = {"verdict": "block"}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            {"when": {"tools": ["refnd"]}},
            "`when.tools` has 'refnd', which is no tool. Did you mean 'refund'? There are: ",
        ),
        ({"when": {"tools": ["rfnd*"]}}, "`when.tools` has 'rfnd*', which is no tool."),
        ({"unless": {"tools": ["lok"]}}, "`unless.tools` has 'lok', which is no tool. Did you mean 'look'?"),
        ({"when": {"provenance": ["lok"]}}, "`when.provenance` has 'lok', which is no tool. Did you mean 'look'?"),
        ({"when": {"tools": ["mcp:mailer/sendmail"]}}, "which is no tool. Did you mean 'mcp:mailer/send_mail'?"),
        ({"when": {"tools": ["mcp:mailr"]}}, "'mcp:mailr', which is no tool."),
        ({"when": {"labels": ["untrustd"]}}, "a label of no tool and no rule. Did you mean 'untrusted'?"),
        ({"when": {"agents": ["ofice"]}}, "'ofice', which is no agent. Did you mean 'office'?"),
        (
            {"when": {"tools": ["refund"]}, "condition": "arguments.boxs > 1"},
            "'boxs' is no argument of refund. Did you mean 'boxes'? There are: boxes, cents.",
        ),
        ({"condition": 'has(arguments.boxs) || arguments["cnts"] > 1'}, "'cnts' is no argument of the 5 tools"),
        ({"condition": '"plce" in arguments'}, "'plce' is no argument of the 5 tools that the rule is about."),
        (
            {"when": {"tools": ["refund"]}, "verdict": "constrain", "arguments": {"box": 1}},
            "'box' is no argument of refund.",
        ),
        (
            {"when": {"tools": ["refund"]}, "verdict": "constrain", "computed": {"cents": "arguments.cent / 2"}},
            "'cent' is no argument of refund. Did you mean 'cents'?",
        ),
        ({"condition": 'tool == "refnd"'}, "compares 'refnd' with `tool`, where it never is. Did you mean 'refund'?"),
        ({"condition": 'effect != "pur"'}, "compares 'pur' with `effect`, where it never is. Did you mean 'pure'?"),
        ({"condition": '"admn" in roles'}, "looks for 'admn' in `roles`, where it never is. Did you mean 'admin'?"),
        ({"condition": "'outwrd' in labels"}, "looks for 'outwrd' in `labels`, where it never is."),
        (
            {"when": {"tools": ["send_mail"]}},
            "has 'send_mail', which several tools are called: mcp:evil/send_mail, mcp:mailer/send_mail. Write the one",
        ),
        (
            {"when": {"tools": ["mailer_send_mail"]}},
            "which mcp:mailer/send_mail is called only beside a tool of its name. Write mcp:mailer/send_mail.",
        ),
    ],
)
def test_a_name_that_nothing_has_is_said_with_the_nearest(policy_of: Any, rule: dict[str, Any], words: str) -> None:
    policy = policy_of(BLOCK | rule)

    warnings = warnings_of(policy, KNOWN)

    assert any(words in warning for warning in warnings), warnings
    assert all(f"policy.yaml:{policy.rules[-1].line}: rule 'rule-0': " in warning for warning in warnings)


@pytest.mark.parametrize(
    "rule",
    [
        {
            "when": {
                "tools": ["refund", "l*k", "mcp:files", "mcp:*/send_mail", "read", "*"],
                "labels": ["pages", "noted"],
            }
        },
        {"when": {"roles": ["operator", "adm*"], "agents": ["off*"]}, "labels": ["noted"]},
        {"condition": 'arguments.all(name, size(name) < 9) && arguments.cents > 1 && "arguments.no" != arguments.to'},
        {"condition": 'tool == "send_mail" && identity == "mcp:mailer/send_mail" && agent != "office"'},
        {
            "when": {"tools": ["refund"]},
            "condition": 'arguments["cents"] > 1 && "admin" in roles && "untrusted" in labels',
        },
    ],
)
def test_a_rule_without_a_typo_has_no_warning(policy_of: Any, rule: dict[str, Any]) -> None:
    other = {"labels": ["noted"], "verdict": "allow", "when": {"tenants": ["acme"]}}

    assert warnings_of(policy_of(BLOCK | rule, other), KNOWN) == []


ALLOW, BY_DEFAULT = {"verdict": "allow"}, {"default": "block"}
CHOSEN = "a name that an MCP server chose and another one can choose, too, and the rule loosens by it. Write "


@pytest.mark.parametrize(
    ("rule", "fields", "words"),
    [
        (ALLOW | {"when": {"tools": ["read"]}}, BY_DEFAULT, f"`when.tools` has 'read', {CHOSEN}mcp:files/read."),
        (
            {"verdict": "require_approval", "when": {"tools": ["*send_mail"]}},
            BY_DEFAULT,
            f"`when.tools` has '*send_mail', {CHOSEN}mcp:evil/send_mail, mcp:mailer/send_mail.",
        ),
        (BLOCK | {"unless": {"tools": ["read"]}}, {}, f"`unless.tools` has 'read', {CHOSEN}mcp:files/read."),
        (BLOCK | {"unless": {"provenance": ["read"]}}, {}, f"`unless.provenance` has 'read', {CHOSEN}mcp:files/read."),
        (
            ALLOW | {"condition": 'tool == "read"'},
            BY_DEFAULT,
            f"its condition compares `tool` with 'read', {CHOSEN}mcp:files/read.",
        ),
        (BLOCK | {"condition": "tool != 'read'"}, {}, f"its condition compares `tool` with 'read', {CHOSEN}mcp:files"),
        (
            ALLOW | {"condition": 'tool == "evil_send_mail"'},
            BY_DEFAULT,
            f"`tool` with 'evil_send_mail', {CHOSEN}mcp:evil/send_mail.",
        ),
        (ALLOW | {"when": {"tools": ["read"]}}, {}, ""),
        (ALLOW | {"when": {"tools": ["refund", "*", "r*", "mcp:files/read"], "provenance": ["read"]}}, BY_DEFAULT, ""),
        (BLOCK | {"unless": {"tools": ["refund", "mcp:files/read"]}}, {}, ""),
        (BLOCK | {"when": {"tools": ["read"]}}, BY_DEFAULT, ""),
        (BLOCK | {"condition": 'tool == "read" && tool != "refund"'}, BY_DEFAULT, ""),
        (ALLOW | {"condition": 'tool == "read" && identity == "mcp:files/read"'}, BY_DEFAULT, ""),
    ],
)
def test_a_name_that_a_server_chose_is_said_where_it_loosens(
    policy_of: Any, rule: Any, fields: Any, words: str
) -> None:
    warnings = warnings_of(policy_of(rule, **fields), KNOWN)

    assert len(warnings) == bool(words)
    assert all(words in warning for warning in warnings)


def test_agents_whose_tools_could_not_be_read_are_named_beside_a_warning(policy_of: Any) -> None:
    unread = Vocabulary(tools=TOOLS, agents=frozenset(), unread=("shop",))

    assert warnings_of(policy_of(), unread) == []
    assert (
        "could not be read, so there may be more names: shop."
        in warnings_of(policy_of(BLOCK | {"when": {"tools": ["refnd"]}}), unread)[-1]
    )


@pytest.mark.parametrize("section", ["when", "unless"])
def test_a_role_that_is_none_is_refused(policy_of: Any, section: str) -> None:
    with pytest.raises(PolicyInvalid, match=r"there is no role 'operater'\. Did you mean 'operator'\? Roles: viewer"):
        policy_of(BLOCK | {section: {"roles": ["admin", "operater"]}})
