"""`warren serve NAME`, above `serve ls` and `serve rm`.

Invariant: it is part of the tree of commands, so importing it loads no client.
"""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from warren.cli.options import HERE, AsJson, GatewayOptions
from warren.errors import ConfigurationError


def serve(
    name: Annotated[str, Parameter(name="NAME", help="What requests say as `model`.")],
    /,
    *,
    run: Annotated[
        str | None,
        Parameter(
            help="RUN@best, RUN@last, RUN@STEP or RUN@CHECKPOINT; RUN alone follows what the run publishes."
        ),
    ] = None,
    model: Annotated[str | None, Parameter(help="Base model.")] = None,
    adapter: Annotated[
        str | None, Parameter(help="Adapter that you uploaded: NAME or NAME@DIGEST.")
    ] = None,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Serve a model under a name, or point the name elsewhere.

    Requests under way keep the model that they began with; what a name points to is kept.

    For example:
        warren serve helper --run last@best
        warren serve helper --run run_01k2@150
        warren serve helper --model warren/tiny
        warren serve helper --adapter poet
    """
    if [run, model, adapter].count(None) != 2:
        raise ConfigurationError(
            "Say what to serve: --run, --model or --adapter",
            hint="`warren serve ls` lists what is served.",
        )
    from warren.cli.commands.runs.serving import point

    return asyncio.run(point(name, run, model, adapter, gateway, as_json=json))
