"""LiteLLM, imported on first use and configured so that it makes no requests, logs and retries of its own.

Some of its functions, and of its SDK's, are replaced in this process, since they take long on the loop.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import warnings
from collections.abc import Awaitable, Callable
from functools import reduce, wraps
from typing import Any, NamedTuple

from agents.models.call import in_provider_call
from agents.models.errors import ModelFailed
from agents.models.releases import require_sound_release
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
    ``agents.models.failures`` is the only retry layer.

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
    from agents.models.http import install_guard  # imports httpx

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


# --- the parts of LiteLLM that are replaced


Transform = Callable[[object, object], Awaitable[Any]]


def without_plain_messages(transform: Transform) -> Transform:
    """Return the SDK's ``async_maybe_transform`` so that it leaves what is plain JSON unchanged.

    ``AsyncCompletions.create`` matches every message against six types, recursively, to rename fields and format dates,
    and every other parameter against its own. Plain JSON is unchanged by that, at 140 µs a message and 200 µs a
    request. See docs/decisions/0003-litellm-opens-we-read.md.
    """
    from openai._utils import is_given

    @wraps(transform)
    async def quick(data: object, expected_type: object) -> Any:
        messages = data.get("messages") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not _are_plain(messages):
            return await transform(data, expected_type)
        others = {name: value for name, value in data.items() if name != "messages" and is_given(value)}
        if _are_plain([others]):
            return {name: value for name, value in data.items() if is_given(value)}
        sent = await transform({**data, "messages": []}, expected_type)  # the field keeps its place
        sent["messages"] = messages
        return sent

    return quick


def _are_plain(value: object) -> bool:
    """Return whether ``value`` is a list of JSON data, which the transformation would return unchanged."""
    if type(value) is not list:
        return False
    waiting: list[object] = [value]
    while waiting:
        part = waiting.pop()
        if type(part) is dict:
            waiting.extend(part.values())
        elif type(part) is list:
            waiting.extend(part)
        elif part is not None and type(part) not in (str, int, float, bool):
            return False
    return True


def _unpriced(price: Callable[..., float | None]) -> Callable[..., float | None]:
    """Return LiteLLM's calculation of a price without that of a provider's call, whose stream has no usage yet.

    It takes 1 ms on the loop; ``agents.models.cost`` prices the usage. Calls that users' tools make are still priced.
    """

    @wraps(price)
    def quick(self: Any, *args: Any, **kwargs: Any) -> float | None:
        return None if in_provider_call() else price(self, *args, **kwargs)

    return quick


class _Replacement(NamedTuple):
    """A function of LiteLLM or its SDK that is replaced in this process."""

    module: str
    name: str
    """Of the function in its module, with a dot where it is a method."""
    make: Callable[[Any], Any]
    """Returns what replaces the function."""
    warning: str
    """Logged where a release has no such function."""


_REPLACED = (
    _Replacement(
        module="litellm.litellm_core_utils.secret_redaction",
        name="python_redact_string",
        make=lambda _: redact,  # its own takes 12 s for 16 KiB of PEM headers
        warning="this release of LiteLLM redacts errors itself; a provider's long error may stop the loop",
    ),
    _Replacement(
        module="litellm.litellm_core_utils.litellm_logging",
        name="Logging.response_cost_calculator",
        make=_unpriced,
        warning="this release of LiteLLM prices each stream that opens; each model call takes longer",
    ),
    _Replacement(
        module="openai.resources.chat.completions.completions",
        name="async_maybe_transform",
        make=without_plain_messages,
        warning="this release of the OpenAI SDK transforms each message; long conversations take longer",
    ),
)
_ours: list[Any] = []
"""The functions that replace them in this process."""


def replace_functions() -> None:
    """Replace the slow functions of LiteLLM and its SDK; a release without one is used as it is, with a warning."""
    for replaced in _REPLACED:
        *owner, name = replaced.name.split(".")
        try:
            holder = reduce(getattr, owner, importlib.import_module(replaced.module))
            function = getattr(holder, name)
            if function not in _ours:  # LiteLLM's set-up failed after this, and is tried again
                _ours.append(replaced.make(function))
                setattr(holder, name, _ours[-1])
        except (ImportError, AttributeError):
            log.warning(replaced.warning)
