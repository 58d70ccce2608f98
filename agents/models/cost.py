"""The price of a call and the size of a model's window, if LiteLLM's list has them."""

from __future__ import annotations

import logging
from functools import lru_cache

from agents.models.call import is_in_process
from agents.models.lite import is_imported, litellm_module
from agents.models.streams.chunk import Usage

log = logging.getLogger(__name__)


def cost_of(model: str, usage: Usage | None) -> float | None:
    """Return the price in US dollars, or None where usage or price is unknown."""
    if usage is None or is_in_process(model) or not _has_price(model):
        return None
    flat = _flat_prices(model)
    if flat is None:
        return _asked(model, usage)
    fresh = max(0, usage.input_tokens - usage.cached_tokens)
    return fresh * flat[0] + usage.cached_tokens * flat[1] + usage.output_tokens * flat[2]


@lru_cache(maxsize=512)
def _has_price(model: str) -> bool:
    """Return whether LiteLLM's list, which does not change while a process lives, knows the model."""
    return _asked(model, Usage(input_tokens=1, output_tokens=1)) is not None


@lru_cache(maxsize=512)
def _flat_prices(model: str) -> tuple[float, float, float] | None:
    """Return dollars per uncached input token, cached input token and output token of a model with just these prices.

    LiteLLM's own calculation takes about 1 ms on the loop. It is used for models whose price depends on the prompt's
    length; prices of batches, tiers and searches do not apply here.
    """
    try:
        info = dict(litellm_module().get_model_info(model))
    except Exception:  # an unknown model, as below
        return None
    input_price, answered = info.get("input_cost_per_token"), info.get("output_cost_per_token")
    by_length = any("_above_" in key and key.endswith("_tokens") and value for key, value in info.items())
    if input_price is None or answered is None or by_length:
        return None
    return float(input_price), float(info.get("cache_read_input_token_cost") or input_price), float(answered)


def _asked(model: str, usage: Usage) -> float | None:
    litellm = litellm_module()
    counted = litellm.Usage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details={"cached_tokens": usage.cached_tokens} if usage.cached_tokens else None,
    )
    try:
        prompt_cost, answered = litellm.cost_per_token(model=model, usage_object=counted)
    except Exception as unknown:  # several types, plain Exception among them
        log.debug("found no price", extra={"model": model, "reason": type(unknown).__name__})
        return None
    return float(prompt_cost) + float(answered)


def window_tokens(model: str) -> int | None:
    """Return how many tokens a model takes, or None where LiteLLM's list does not say, or is not imported.

    The list alone is read: for some providers LiteLLM's own function makes a request.
    """
    if is_in_process(model) or not is_imported():
        return None
    prices = litellm_module().model_cost
    facts = prices.get(model) or prices.get(model.partition("/")[2]) or {}
    tokens = facts.get("max_input_tokens")
    return tokens if isinstance(tokens, int) and tokens > 0 else None
