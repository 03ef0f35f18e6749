"""Names under which models are served: what a name is to point to, as the gateway takes it."""

from collections.abc import Callable, Coroutine
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from warren.errors import ConfigurationError
from warren.evaluations.configs import best_checkpoint
from warren.run import Run
from warren_schemas.http import RemoveServed, ServeModel
from warren_schemas.text.explain import explain

BodyT = TypeVar("BodyT", bound=BaseModel)


async def target(
    name: str,
    run: Run | str | None,
    base_model: str | None,
    adapter: str | None,
    find: Callable[[str], Coroutine[object, None, Run]],
) -> ServeModel:
    """Of `"RUN@best"`, of a run to be followed, of a base model or of an adapter. Raises `ConfigurationError`, `NotFound`."""
    if [run, base_model, adapter].count(None) != 2:
        raise ConfigurationError("Give one of a run, a base model and an adapter")
    if run is None:
        return _body(name=name, base_model=base_model, adapter=adapter)
    if isinstance(run, Run):
        return await _of_run(name, run, None)
    chosen, at, which = run.partition("@")
    return await _of_run(name, await find(chosen), which if at else None)


async def _of_run(name: str, run: Run, which: str | None) -> ServeModel:
    """The policy of a run: `best`, `last`, after a step, or of a checkpoint; None follows the run.

    Raises `ConfigurationError`.
    """
    if which is None:
        return _body(name=name, run=run.id)
    if which == "last":
        return _body(name=name, run=run.id, step=(await run.checkpoints()).step)
    if which.isascii() and which.isdecimal():
        return _body(name=name, run=run.id, step=int(which))
    checkpoint = await best_checkpoint(run) if which == "best" else which
    return _body(name=name, run=run.id, checkpoint=checkpoint)


def removal(name: str, owner: str | None) -> RemoveServed:
    """Raises `ConfigurationError`."""
    return _checked(RemoveServed, {"name": name, "owner": owner})


def _body(**fields: object) -> ServeModel:
    return _checked(ServeModel, fields)


def _checked(model: type[BodyT], fields: dict[str, object]) -> BodyT:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        lines = explain(error, model)
        raise ConfigurationError("This can't be served", details=lines) from error
