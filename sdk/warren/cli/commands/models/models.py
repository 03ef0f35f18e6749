"""Models that you train by a loop of your own."""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.newest_metrics import figure
from warren.display.output import make_output, print_json
from warren.display.words import ago, duration, queued
from warren_schemas.http import TrainableView
from warren_schemas.http.model_ops import ModelOp, ModelOpList
from warren_schemas.http.trainable import TrainableList

__all__ = ["close", "ls", "ops", "show"]

Limit = Annotated[int, Parameter(help="How many at most.")]
Model = Annotated[str, Parameter(name="MODEL", help="Id, as shown by `warren models ls`.")]


def ls(*, limit: Limit = 20, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List the models that clients train, newest first.

    For example:
        warren models ls
    """
    return asyncio.run(_ls(limit, gateway, as_json=json))


def show(model: Model, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Show a model: what it is, how far it is, and what it waits for.

    For example:
        warren models show model_01k2
    """
    return asyncio.run(_show(model, gateway, as_json=json))


def ops(
    model: Model, /, *, limit: Limit = 20, json: AsJson = False, gateway: GatewayOptions = HERE
) -> int:
    """List what a model's client asked for last, with losses and times, as long as outcomes are kept.

    For example:
        warren models ops model_01k2
    """
    return asyncio.run(_ops(model, limit, gateway, as_json=json))


def close(model: Model, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Close a model: save it and give its trainer back. Its checkpoints and named snapshots stay.

    For example:
        warren models close model_01k2
    """
    return asyncio.run(_close(model, gateway, as_json=json))


async def _ls(limit: int, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        models = await client.models(limit=limit)
    output = make_output()
    if as_json:
        print_json(TrainableList(models=tuple(models)))
    elif not models:
        output.line("No models yet. docs/primitives.md shows how to train one by your own loop.")
    else:
        columns = ["model", "name", "state", "base model", "version", "created"]
        output.table(columns, [_row(view) for view in models], right=["version"])
    return codes.OK


async def _show(model: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.model(model)
    if as_json:
        print_json(view)
        return codes.OK
    rows = [
        ("name", view.name),
        ("run", view.run),
        ("owner", view.owner),
        ("state", view.state),
        *([("queue", queued(view.queue))] if view.queue else []),
        *([("waiting for", view.waiting_for)] if view.waiting_for else []),
        *([("error", view.error)] if view.error else []),
        ("base model", f"{view.base_model} ({view.update.kind})"),
        ("version", str(view.version)),
        ("published", _published(view)),
        ("created", ago(view.created_s)),
    ]
    output, width = make_output(), max(len(label) for label, _ in rows)
    output.line(view.id, "bold")
    for label, value in rows:
        output.line(f"  {label.ljust(width)} {value}")
    return codes.OK


async def _ops(model: str, limit: int, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        asked = await client.model_ops(model, limit=limit)
    output = make_output()
    if as_json:
        print_json(ModelOpList(ops=asked))
    elif not asked:
        output.line("No op whose outcome is still kept; `warren metrics RUN` has every step.")
    else:
        columns = ["op", "state", "asked", "took", "loss", "tokens", "what else"]
        output.table(columns, [_op_row(op) for op in asked], right=["took", "loss", "tokens"])
    return codes.OK


async def _close(model: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.close_model(model)
    if as_json:
        print_json(view)
    else:
        how = view.state if view.state.is_final else "being closed"
        make_output().line(f"{view.id} ({view.name}) is {how}")
    return codes.OK


def _op_row(op: ModelOp) -> tuple[str, ...]:
    took = "" if op.done_s is None else duration(max(0.0, op.done_s - op.arrived_s))
    loss, tokens = op.metrics.get("loss:sum"), op.metrics.get("tokens:sum")
    others = {k: v for k, v in op.metrics.items() if k not in ("loss:sum", "tokens:sum")}
    told = op.reason or "  ".join(f"{name} {figure(value)}" for name, value in others.items())
    figures = ("" if value is None else figure(value) for value in (loss, tokens))
    return (op.kind, op.state.replace("_", " "), ago(op.arrived_s), took, *figures, told)


def _row(view: TrainableView) -> tuple[str, ...]:
    base, version = view.base_model, str(view.version)
    return (view.id, view.name, view.state, base, version, ago(view.created_s))


def _published(view: TrainableView) -> str:
    return "nothing" if view.published_version is None else str(view.published_version)
