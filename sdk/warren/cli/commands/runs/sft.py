"""`warren sft`."""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from warren.adapters.handle import model_with
from warren.cli.commands.runs.train import submit
from warren.cli.options import HERE, AsJson, GatewayOptions
from warren.client import Client
from warren.display.output import make_output
from warren.errors import ConfigurationError
from warren.run import Run
from warren.run_configs.configs import config_of_fine_tuning


def sft(
    dataset: Annotated[
        str, Parameter(name="DATASET", help="NAME, OWNER/NAME or either with @DIGEST.")
    ],
    /,
    *,
    model: Annotated[str | None, Parameter(help="Base model.")] = None,
    adapter: Annotated[
        str | None, Parameter(help="Adapter that you uploaded, to go on from: NAME or NAME@DIGEST.")
    ] = None,
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="KEY=VALUE of the run's config; repeatable."),
    ] = (),
    detach: Annotated[bool, Parameter(help="Submit, print the run's id and exit.")] = False,
    priority: Annotated[
        int,
        Parameter(help="Higher goes first in the queue; above 0 takes an admin's key."),
    ] = 0,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Fine-tune a base model, or an adapter of yours, on a data set, and follow the run until it ends.

    It is a run with `sft.dataset` and `limits.steps: 0`. Its last checkpoint is evaluated, exported and trained on like any other.

    For example:
        warren sft chats --model warren/tiny --set sft.epochs=3
        warren sft chats --adapter poet
        warren sft chats@4f2a91 --model warren/tiny --set sft.learning_rate=1e-4 --detach
    """
    if (model is None) is (adapter is None):
        raise ConfigurationError("Say what is fine-tuned: either --model or --adapter")

    async def ask(client: Client) -> Run:
        begins_with = model or await model_with(client.adapters, adapter) or ""
        config = config_of_fine_tuning(dataset, begins_with, set_)
        return await client.train(config, priority=priority)

    return asyncio.run(submit(ask, make_output(), gateway, detach=detach, as_json=json))
