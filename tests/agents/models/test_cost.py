"""Prices: ours for the plain cases, LiteLLM's own for the others, and the same either way."""

from __future__ import annotations

import pytest

from agents.models.cost import _asked, _flat_prices, cost_of
from agents.models.lite import litellm_module
from agents.models.streams.chunk import Usage

pytestmark = pytest.mark.parity


@pytest.mark.parametrize(
    "model", ["openai/gpt-5-mini", "openai/gpt-4o-mini", "anthropic/claude-haiku-4-5", "deepseek/deepseek-chat"]
)
@pytest.mark.parametrize(
    "usage", [Usage(input_tokens=1000, output_tokens=200), Usage(input_tokens=90, cached_tokens=64)]
)
def test_our_price_is_litellms_price(model: str, usage: Usage) -> None:
    assert cost_of(model, usage) == pytest.approx(_asked(model, usage))


def test_the_usual_models_have_flat_prices() -> None:
    assert _flat_prices("openai/gpt-4o-mini") is not None


def test_unknown_is_not_free() -> None:
    assert cost_of("openai/unpriced-model", Usage(input_tokens=1)) is None
    assert cost_of("openai/gpt-5-mini", None) is None


def test_a_model_without_a_price_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cost_of("openai/unpriced-model-one", Usage(input_tokens=1)) is None
    monkeypatch.setattr(litellm_module(), "cost_per_token", lambda **_: pytest.fail("asked again"))

    assert cost_of("openai/unpriced-model-one", Usage(input_tokens=1)) is None
