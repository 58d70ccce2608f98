"""What a call cost, where LiteLLM knows the price."""

from __future__ import annotations

import logging

from agents.models.chunk import Usage
from agents.models.lite import litellm_module

log = logging.getLogger(__name__)


def cost_of(model: str, usage: Usage | None) -> float | None:
    """Return the price in US dollars, or None where usage or price is unknown: unknown is not free."""
    if usage is None:
        return None
    litellm = litellm_module()
    counted = litellm.Usage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details={"cached_tokens": usage.cached_tokens} if usage.cached_tokens else None,
    )
    try:
        asked, answered = litellm.cost_per_token(model=model, usage_object=counted)
    except Exception as unknown:  # LiteLLM raises several types, plain Exception among them, for an unknown model
        log.debug("found no price", extra={"model": model, "reason": type(unknown).__name__})
        return None
    return float(asked) + float(answered)
