"""What a call cost, where LiteLLM knows the price."""

from __future__ import annotations

import logging
from functools import lru_cache

from agents.models.chunk import Usage
from agents.models.demo import is_demo
from agents.models.lite import litellm_module

log = logging.getLogger(__name__)


def cost_of(model: str, usage: Usage | None) -> float | None:
    """Return the price in US dollars, or None where usage or price is unknown: unknown is not free."""
    if usage is None or is_demo(model):
        return None
    flat = _flat_prices(model)
    if flat is not None:
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        return fresh * flat[0] + usage.cached_tokens * flat[1] + usage.output_tokens * flat[2]
    return _asked(model, usage)


@lru_cache(maxsize=512)
def _flat_prices(model: str) -> tuple[float, float, float] | None:
    """Return dollars per fresh, cached and answered token of a model whose prices are just these three.

    LiteLLM takes about a millisecond of the loop for each question. It is asked about models whose price
    depends on the prompt's length; prices of batches, tiers and searches do not matter for what we count.
    """
    try:
        info = dict(litellm_module().get_model_info(model))
    except Exception:  # an unknown model; several types, plain Exception among them
        return None
    asked, answered = info.get("input_cost_per_token"), info.get("output_cost_per_token")
    by_length = any("_above_" in key and key.endswith("_tokens") and value for key, value in info.items())
    if asked is None or answered is None or by_length:
        return None
    return float(asked), float(info.get("cache_read_input_token_cost") or asked), float(answered)


def _asked(model: str, usage: Usage) -> float | None:
    litellm = litellm_module()
    counted = litellm.Usage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details={"cached_tokens": usage.cached_tokens} if usage.cached_tokens else None,
    )
    try:
        asked, answered = litellm.cost_per_token(model=model, usage_object=counted)
    except Exception as unknown:  # as above
        log.debug("found no price", extra={"model": model, "reason": type(unknown).__name__})
        return None
    return float(asked) + float(answered)
