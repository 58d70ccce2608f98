"""LiteLLM, imported where it is first used and set so that it does nothing of its own accord."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from typing import Any

from agents.models.plain_messages import send_plain_messages
from agents.models.releases import require_sound_release
from config.forks import after_fork
from config.redaction import redact

_ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",  # else it loads .env into the environment, where web would not see the same
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # The slots of a worker limit its connections. 0 would fall back to aiohttp's own 100.
    "AIOHTTP_CONNECTOR_LIMIT": "4000",
    "AIOHTTP_CONNECTOR_LIMIT_PER_HOST": "4000",
}
_ITS_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")

_module: Any = None
_importing = threading.Lock()


def litellm_module() -> Any:
    """Return LiteLLM, imported once: three seconds the first time, for every thread that asks meanwhile.

    Its price list is the one that came with it (no look-up on the network at import), it prints nothing,
    reports nothing, and tries nothing again: the one retry layer is ours.

    Raises:
        ReleaseRefused: the release that is installed steals keys.
    """
    global _module
    if _module is None:
        with _importing:
            if _module is None:
                _module = _imported()
    return _module


def is_imported() -> bool:
    """Return whether ``litellm_module`` answers at once in this process."""
    return _module is not None


def _imported() -> Any:
    require_sound_release()
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from agents.models.guard import install_guard  # imports httpx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic's remarks about LiteLLM's classes; nothing of ours to mend
        import litellm
        from litellm.types.utils import Delta, ModelResponse, ModelResponseStream, StreamingChoices

        ModelResponse()  # both are built when first used, with the same remarks
        ModelResponseStream(choices=[StreamingChoices(delta=Delta(content=""))])

    warnings.filterwarnings("ignore", message="Item.* on TypedDict class", category=UserWarning)  # the same, later
    for name in _ITS_LOGGERS:
        logging.getLogger(name).handlers.clear()  # they print on stdout; ours, at the root, say it once and redacted
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = True
    litellm.num_retries = 0
    litellm.callbacks = []
    litellm.success_callback = []
    litellm.failure_callback = []
    install_guard()
    _redact_with_ours()
    send_plain_messages()
    return litellm


def _redact_with_ours() -> None:
    """LiteLLM redacts error texts with our redactor: its own pattern takes 12 s for 16 KiB of PEM headers."""
    from litellm.litellm_core_utils import secret_redaction

    secret_redaction.python_redact_string = redact  # looked up at each call


@after_fork
def _renew() -> None:
    global _importing
    _importing = threading.Lock()
