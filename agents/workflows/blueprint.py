"""A workflow in Python: a class whose ``logic`` calls capabilities, and is run again over what it has recorded.

A resumed blueprint begins ``logic`` anew; each call that is recorded returns what it returned before, so the code
arrives where the last owner left it. So ``logic`` only decides: time, randomness and everything outside come through
the methods below, and calls at once through ``gather``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, ClassVar, Protocol
from uuid import UUID

from pydantic import BaseModel, ValidationError

from agents.errors import BLUEPRINT_REFUSED
from config.definitions.dotted_path import NotImportable, require_own
from config.definitions.errors import ToolUnknown
from config.definitions.plugins import PluginLoader
from config.identity.contexts import GoldenContext, SecurityContext
from config.settings import Settings

Input = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]
"""The arguments of a call that undoes another; or what makes them of the other's result."""


class CallRecorder(Protocol):
    """What records the calls of one blueprint's run, in the order of its code."""

    golden: GoldenContext | None
    security: SecurityContext | None

    async def call(
        self, cap_id: str, data: Mapping[str, Any], run_as: str | None, undone_by: Undoing | None
    ) -> Any: ...

    def value(self, name: str) -> Any: ...

    async def sleep(self, seconds: float) -> None: ...

    async def wait_for(self, signal: str, timeout_s: float | None) -> Any: ...

    async def gather(self, *calls: Coroutine[Any, Any, Any]) -> list[Any]: ...


Undoing = tuple[str, Input]
"""The capability that undoes a call, and its arguments."""


def arguments_of(data: Input, result: Any) -> Mapping[str, Any]:
    """Return the arguments of a call that undoes another one with this result."""
    return dict(data(result) if callable(data) else data)


current_recorder: ContextVar[CallRecorder] = ContextVar("recorder")


class BaseBlueprint:
    """The base of blueprints; ``logic`` is theirs to write."""

    input_model: ClassVar[type[BaseModel] | None] = None
    """What the run's input has to be; None: the mapping as it is."""
    config_model: ClassVar[type[BaseModel] | None] = None
    """What the definition's ``config:`` has to be; None: the mapping as it is."""

    def __init__(self, recorder: CallRecorder, config: Mapping[str, Any]) -> None:
        self._recorder = recorder
        self.config: Any = _validated(self.config_model, config, "config")
        """The ``config:`` of the blueprint's definition."""
        self._undoing: Undoing | None = None

    async def logic(self, data: Any) -> Any:
        """Return the run's output for its input; called by each owner of the run, from the beginning."""
        raise NotImplementedError

    async def main(self, data: Mapping[str, Any]) -> Any:
        """Validate the input, and return what ``logic`` gives for it, as JSON data.

        Raises:
            BLUEPRINT_REFUSED: the input or the config does not fit its model.
        """
        output = await self.logic(_validated(self.input_model, data, "input"))
        return output.model_dump(mode="json") if isinstance(output, BaseModel) else output

    # --- what logic may do

    async def execute_by_id(
        self,
        cap_id: str,
        data: Mapping[str, Any] | BaseModel | None = None,
        *,
        run_as: str | None = None,
        compensate: Undoing | None = None,
    ) -> Any:
        """Call a capability or another tool of the definition's ``tools``, and return its result.

        The call is one like an agent's: with its policy, approval, key, retries and record. ``run_as``: the principal
        as whom it is made, which is the run's own; ``compensate``: the call that undoes it where the run fails later.

        Raises:
            CallboardError: the call was refused, or has failed.
        """
        undone_by, self._undoing = compensate or self._undoing, None
        arguments = data.model_dump(mode="json") if isinstance(data, BaseModel) else dict(data or {})
        return await self._recorder.call(cap_id, arguments, run_as, undone_by)

    def compensate(self, cap_id: str, data: Input) -> None:
        """Let this call undo the next one that ``execute_by_id`` makes, where the run fails later.

        It is registered in the commit of that call's result. ``data`` may be a function of the result.
        """
        self._undoing = (cap_id, data)

    def now(self) -> datetime:
        """Return the time at which the code came here first, in UTC."""
        return datetime.fromisoformat(self._recorder.value("now"))

    def uuid(self) -> UUID:
        """Return a UUID that is the same each time the code comes here."""
        return UUID(self._recorder.value("uuid"))

    def random(self) -> float:
        """Return a number from 0 to below 1 that is the same each time the code comes here."""
        return float(self._recorder.value("random"))

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds; a long sleep holds no worker."""
        await self._recorder.sleep(seconds)

    async def wait_for(self, signal: str, timeout_s: float | None = None) -> Any:
        """Return the data of a signal that the definition's ``signals`` names; holds no worker.

        Raises:
            SIGNAL_MISSED: it did not come within ``timeout_s``.
            BLUEPRINT_REFUSED: the definition does not name it.
        """
        return await self._recorder.wait_for(signal, timeout_s)

    async def gather(self, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
        """Make calls at once, and return their results in the order of the arguments.

        Raises:
            CallboardError: one has failed; the others are at their end by then.
        """
        return await self._recorder.gather(*calls)

    @property
    def golden(self) -> GoldenContext | None:
        """The context of the run's request."""
        return self._recorder.golden

    @property
    def security(self) -> SecurityContext | None:
        """Who started the run, and with which roles."""
        return self._recorder.security


def _validated(model: type[BaseModel] | None, data: Mapping[str, Any], what: str) -> Any:
    if model is None:
        return dict(data)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        places = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or what}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise BLUEPRINT_REFUSED(problem=f"its {what} does not fit {model.__name__}: {places}.") from error


async def execute_dagger_capability(
    *,
    cap_id: str,
    input: Mapping[str, Any] | None = None,
    ctx: GoldenContext | None = None,
    trace_id: str | None = None,
    run_as: str | None = None,
) -> Any:
    """Call a capability from a blueprint's code, by the name of the first design; see ``execute_by_id``.

    Raises:
        BLUEPRINT_REFUSED: no blueprint is at work here, or the call is to be made for another trace.
    """
    recorder = current_recorder.get(None)
    if recorder is None:
        raise BLUEPRINT_REFUSED(problem="a capability is called from the logic of a blueprint's run.")
    golden = recorder.golden
    if golden is not None and ((ctx is not None and ctx != golden) or trace_id not in (None, golden.trace_id)):
        raise BLUEPRINT_REFUSED(problem="a call has the context and the trace of its run, and no others.")
    return await recorder.call(cap_id, dict(input or {}), run_as, None)


def _as_blueprint(thing: Any, path: str, name: str | None, settings: Settings) -> type[BaseBlueprint]:
    """Return the object of a dotted path as a blueprint; raise ``ToolUnknown`` where it is none."""
    try:
        require_own(thing, path, settings)
    except NotImportable as error:
        raise ToolUnknown(f"blueprint '{path}' {error}", name=path) from error
    if not _is_blueprint(thing):
        raise ToolUnknown(f"'{path}' is no blueprint; name a class that has BaseBlueprint as its base.", name=path)
    blueprint: type[BaseBlueprint] = thing
    return blueprint


def _is_blueprint(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseBlueprint)


BLUEPRINTS: PluginLoader[type[BaseBlueprint]] = PluginLoader(
    noun="blueprint",
    attribute="Class",
    error=ToolUnknown,
    accepts=_is_blueprint,
    build=_as_blueprint,
    name_of=lambda blueprint: blueprint.__name__,
)
"""By name: the entry points ``callboard.blueprints``, and classes of dotted paths."""
