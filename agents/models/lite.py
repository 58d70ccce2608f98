"""LiteLLM, imported on first use and configured so that it makes no requests, logs and retries of its own."""

from __future__ import annotations

import importlib
import logging
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

from agents.models.errors import ModelFailed
from agents.models.releases import require_sound_release
from agents.models.replacements import replace_functions
from config.definitions.dotted_path import reason_of
from config.errors import CallboardError
from config.forks import after_fork
from config.redaction import redact

_ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",  # else it loads .env into the environment, where web would not see the same
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # The slots of a worker limit its connections. 0 would fall back to aiohttp's own 100.
    "AIOHTTP_CONNECTOR_LIMIT": "4000",
    "AIOHTTP_CONNECTOR_LIMIT_PER_HOST": "4000",
    # Seconds, aiohttp's own default; LiteLLM's 120 would keep a socket of each slot open for two to four minutes.
    "AIOHTTP_KEEPALIVE_TIMEOUT": "15",
}
log = logging.getLogger(__name__)

_ITS_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


def litellm_module() -> Any:
    """Return LiteLLM, imported once; the import takes about 3 s, and concurrent callers wait for it.

    It uses its bundled price list instead of a download, prints and reports nothing, and does not retry:
    ``agents.models.retry`` is the only retry layer.

    Raises:
        ReleaseRefused: the installed release is malicious.
        ModelFailed: it cannot be imported or set up; the message says why. The next call tries again.
    """
    return process_import.module()


def is_imported() -> bool:
    """Return whether LiteLLM is imported in this process."""
    return process_import.loaded is not None


class LiteLLMImport:
    """Imports LiteLLM once; concurrent callers wait for the same import."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self.loaded: Any = None
        self._logged: set[str] = set()  # why it could not be imported, as far as the log has it with a traceback
        self.lock = threading.Lock()

    def module(self) -> Any:
        if self.loaded is None:
            with self.lock:
                if self.loaded is None:
                    try:
                        self.loaded = self._load()
                    except CallboardError:
                        raise
                    except (Exception, SystemExit) as error:
                        raise self._unusable(error) from error
        return self.loaded

    def _unusable(self, error: BaseException) -> ModelFailed:
        """Return the error of each run that needs LiteLLM; the log has the traceback of each reason once."""
        reason = redact(reason_of(error))
        if reason not in self._logged:
            self._logged.add(reason)
            log.error("LiteLLM cannot be imported", exc_info=error)
        return ModelFailed(
            f"LiteLLM cannot be imported here ({reason}); each model but the demo's needs it. Install the release that "
            "requirements.lock names, which ./callboard does, and start the workers again."
        )


def _imported() -> Any:
    require_sound_release()
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from agents.models.http.guard import install_guard  # imports httpx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic's remarks about LiteLLM's classes; nothing of ours to mend
        import litellm

        _import_what_comes_late()

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
    replace_functions()
    return litellm


def _import_what_comes_late() -> None:
    """Import and build now what LiteLLM would import and build during its first call."""
    try:
        # LiteLLM's clients import it when they are collected. At the interpreter's end that import waits for ever if
        # the loop's thread ended in the middle of another one.
        importlib.import_module("litellm.llms.custom_httpx.aiohttp_transport")
        from litellm.types.utils import Delta, ModelResponse, ModelResponseStream, StreamingChoices

        ModelResponse()  # both are built when first used, with pydantic's remarks
        ModelResponseStream(choices=[StreamingChoices(delta=Delta(content=""))])
    except Exception as error:
        log.warning("this release of LiteLLM keeps its classes elsewhere (%s); the first answer takes longer", error)


process_import = LiteLLMImport(_imported)
"""LiteLLM in this process."""


@after_fork
def _renew() -> None:
    process_import.lock = threading.Lock()
