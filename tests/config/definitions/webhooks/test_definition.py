"""The files of webhooks: what they may say, what is wrong with one, and what they make of a delivery."""

from __future__ import annotations

import pytest

from config.definitions.errors import DefinitionInvalid
from config.definitions.webhooks.definition import WebhookFiles, load_webhook, read_webhooks
from config.expressions.errors import ExpressionFailed
from config.identity.principal import Verb

HEAD = "format: standard\nsecret: ${SHOP_SECRET}\n"
START = "start: {agent: clerk, input: 'Order {{ body.data.id }}'}\n"
DELIVERY = {
    "body": {"type": "paid", "data": {"id": 17, "new": True}},
    "headers": {"a-b": "c"},
    "id": "m",
    "event": "paid",
}


def written(folder, text, name="shop"):
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def test_a_webhook_is_named_by_its_file_and_acts_for_itself(tmp_path):
    webhook = load_webhook(written(tmp_path, HEAD + START))

    assert (webhook.name, webhook.secret) == ("shop", ("env:SHOP_SECRET",))
    assert (webhook.who.tenant, webhook.who.id, webhook.who.roles) == ("default", "shop", frozenset())
    assert webhook.who.verbs == {Verb.SEE, Verb.START}


def test_a_webhook_for_signals_may_start_nothing(tmp_path):
    text = "format: github\nsecret: [secret://new, 'file:/run/old']\ntenant: acme\nprincipal: ci\n"
    text += "signal: {run: '{{ body.run }}', name: deployed, data: {ok: '{{ body.ok }}'}}\n"

    webhook = load_webhook(written(tmp_path, text))

    assert webhook.who.verbs == {Verb.SEE, Verb.CONTROL}
    assert (webhook.who.tenant, webhook.who.id) == ("acme", "ci")
    assert webhook.secret == ("secret://new", "file:/run/old")


def test_templates_make_the_input_and_data_stay_data(tmp_path):
    text = (
        "start: {workflow: w, input: {id: '{{ body.data.id }}', via: '{{ headers[\"a-b\"] }}: {{ event }} {{ id }}'}}\n"
    )

    webhook = load_webhook(written(tmp_path, HEAD + text))

    assert webhook.start is not None
    assert webhook.rendered(webhook.start.input, DELIVERY) == {"id": 17, "via": "c: paid m"}
    with pytest.raises(ExpressionFailed, match=r"body\.data\.id"):
        webhook.rendered(webhook.start.input, DELIVERY | {"body": {"data": {}}})


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("event == 'paid'", True), ("body.data.new && body.data.id > 17", False), ("headers['a-b'] == 'c'", True)],
)
def test_a_condition_is_cel(tmp_path, condition, holds):
    webhook = load_webhook(written(tmp_path, f'{HEAD}{START}only: "{condition}"\n'))

    assert webhook.applies(DELIVERY) is holds


def test_a_condition_that_fails_is_an_error(tmp_path):
    webhook = load_webhook(written(tmp_path, f"{HEAD}{START}only: body.missing == 1\n"))

    with pytest.raises(ExpressionFailed):
        webhook.applies(DELIVERY)


MISTAKES = {
    "secret: ${A}\n" + START: "format: is missing",
    "format: standard\n" + START: "secret: is missing",
    "format: svix\nsecret: ${A}\n" + START: "shop.yaml:1: format: has to be 'standard', 'github' or 'stripe'.",
    "format: github\nsecret: hunter2\n" + START: "shop.yaml:2: secret: has to be `${VARIABLE}`",
    "format: github\nsecret: ${OPENAI_API_KEY}\n" + START: "secret: may not be the key of a provider",
    "format: github\nsecret: [a, b]\n" + START: "never the secret itself",
    f"format: github\nsecret: [{', '.join(['env:A'] * 5)}]\n{START}": "secret: has more than 4 secrets",
    HEAD: "`start` or `signal` is needed, and not both",
    HEAD + START + "signal: {run: r, name: n}\n": "`start` or `signal` is needed",
    HEAD + "start: {input: x}\n": "start: `agent` or `workflow` is needed",
    HEAD + "start: {agent: a, workflow: b, input: x}\n": "`agent` or `workflow` is needed, and not both",
    HEAD + "start: {agent: a}\n": "shop.yaml:3: start.input: is missing",
    HEAD + "start: {agent: a, input: {x: y}}\n": "shop.yaml:3: start.input: `input` has to be text",
    HEAD + "start: {workflow: a, input: x}\n": "`input` has to be a mapping",
    HEAD + "start: {agent: a/b, input: x}\n": "start.agent: has to be the id of an agent",
    HEAD + "start: {agent: a, input: '{{ boddy.x }}'}\n": "there are body, headers, id, event. Did you mean 'body'?",
    HEAD + "start: {agent: a, input: '{{ body.x '}\n": "not closed",
    HEAD + START + "thread: '{% for x in body %}'\n": "shop.yaml:4: thread: has `{% for %}`",
    HEAD + START + "only: body.x ==\n": "shop.yaml:4: only: is not CEL",
    HEAD + START + "only: nodes.x == 1\n": "only: is not CEL",
    HEAD + START + "tennant: acme\n": "there is no such field. Did you mean 'tenant'?",
    HEAD + START + "principal: 'a b'\n": "principal: has to be a name",
    HEAD + "signal: {run: r, name: n}\nthread: x\n": "`thread` is for a webhook that starts runs",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_with_its_remedy(tmp_path, text):
    with pytest.raises(DefinitionInvalid) as refused:
        load_webhook(written(tmp_path, text))

    assert MISTAKES[text] in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_name_that_no_address_can_have_is_refused(tmp_path):
    with pytest.raises(DefinitionInvalid, match="the file's name is the webhook's"):
        load_webhook(written(tmp_path, HEAD + START, "a b"))


def test_a_broken_file_leaves_the_others_usable_and_the_first_of_a_name_counts(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    written(tmp_path / "one", HEAD + START)
    written(tmp_path / "two", "format: none\n")
    written(tmp_path / "two", "format: none\n", "broken")

    webhooks, problems = read_webhooks([tmp_path / "one", tmp_path / "two", tmp_path / "none"])

    assert (list(webhooks), [problem.facts["file"] for problem in problems]) == (
        ["shop"],
        [str(tmp_path / "two" / "broken.yaml")],
    )


def test_an_edited_file_is_read_again(tmp_path):
    files = WebhookFiles([tmp_path])
    assert files.get("shop") is None

    path = written(tmp_path, HEAD + START)
    first = files.get("shop")
    assert files.get("shop") is first

    path.write_text("format: none\n")
    assert isinstance(files.get("shop"), DefinitionInvalid)

    path.unlink()
    assert files.get("shop") is None
    assert files.get("../shop") is None
