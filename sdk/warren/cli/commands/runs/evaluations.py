"""Evaluate base models and checkpoints, show the results, and compare them.

For example:
    warren eval run --model warren/tiny --env guess --episodes 64
    warren eval run --policy last@best --samples 4 --temperature 1
    warren eval recorded last --where min_version=300
    warren eval show last
    warren eval compare BASELINE last
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.evaluation_results import compare, print_results, show
from warren.cli.commands.runs.runs import RunName
from warren.cli.commands.runs.trajectories import From
from warren.cli.connecting import connected
from warren.cli.follow import follow
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.client import Client
from warren.configs import read_config, read_filter
from warren.display.output import make_output, print_json
from warren.errors import ConfigurationError
from warren.evaluations.handle import Evaluation
from warren.streams.recording import parse_beginning, recorded_source
from warren_schemas.config import RecordedSource

__all__ = ["compare", "recorded", "run", "show"]


def run(
    config: Annotated[
        Path | None, Parameter(help="YAML config; what it says of training is left out.")
    ] = None,
    /,
    *,
    policy: Annotated[
        str | None,
        Parameter(help="RUN@best, RUN@last, RUN@STEP or RUN@CHECKPOINT of a run that is over."),
    ] = None,
    model: Annotated[str | None, Parameter(help="Base model.")] = None,
    adapter: Annotated[
        str | None, Parameter(help="Adapter that you uploaded: NAME or NAME@DIGEST.")
    ] = None,
    env: Annotated[
        tuple[str, ...], Parameter(help="Environment instead of those of the config; repeatable.")
    ] = (),
    episodes: Annotated[int | None, Parameter(help="Number of episodes.")] = None,
    samples: Annotated[int | None, Parameter(help="Episodes of each task, for pass@k.")] = None,
    temperature: Annotated[float | None, Parameter(help="Sampling temperature.")] = None,
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="KEY=VALUE that overrides the file; repeatable."),
    ] = (),
    detach: Annotated[bool, Parameter(help="Submit, print the run's id and exit.")] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Evaluate a base model or a checkpoint, and show the results.

    Without a config, --policy takes that of its run; --model and --adapter need --env. `warren runs finish` ends
    an evaluation early with what there is by then.

    For example:
        warren eval run --model warren/tiny --env guess --episodes 64
        warren eval run --policy last@best --samples 4 --temperature 1
        warren eval run examples/guess.yaml --policy last@150
        warren eval run --adapter poet --env guess --episodes 64
    """
    if set_ and config is None:
        raise ConfigurationError("--set needs a config file")
    chosen = None if config is None else read_config(config, set_)

    def submit(client: Client) -> Coroutine[object, None, Evaluation]:
        return client.evaluate(
            chosen, policy=policy, model=model, adapter=adapter, environments=env, episodes=episodes,
            samples=samples, temperature=temperature,
        )  # fmt: skip

    return asyncio.run(_run(submit, gateway, detach=detach, as_json=json))


@dataclass(frozen=True, slots=True)
class Recording:
    """Of what was recorded, what is evaluated."""

    score: Annotated[
        bool,
        Parameter(help="The environments of the config reward the answers anew, on env workers."),
    ] = False
    also: Annotated[
        tuple[str, ...], Parameter(help="A run whose recording comes after it; repeatable.")
    ] = ()
    where: Annotated[
        tuple[str, ...],
        Parameter(help="KEY=VALUE that groups must meet, min_version=300; repeatable."),
    ] = ()
    from_: From = None
    from_archive: Annotated[
        bool, Parameter(help="Read the archive of the run, not its stream.")
    ] = False
    dataset: Annotated[str | None, Parameter(help="Uploaded trajectories, in place of RUN.")] = None

    def reader(
        self, run: str | None
    ) -> Callable[[Client], Coroutine[object, None, RecordedSource]]:
        """Asks the gateway which runs are meant. Raises `ConfigurationError` for what can't be meant."""
        if (run is None) == (self.dataset is None):
            raise ConfigurationError("warren eval recorded needs either a RUN or --dataset")
        start, where = parse_beginning(self.from_) if self.from_ else None, read_filter(self.where)

        async def read(client: Client) -> RecordedSource:
            return recorded_source(
                None if run is None else (await client.run(run)).id,
                start,
                also=[(await client.run(name)).id for name in self.also],
                where=where,
                from_archive=self.from_archive,
                score=self.score,
                dataset=self.dataset,
            )

        return read


ALL_RECORDED = Recording()


def recorded(
    run: RunName | None = None,
    /,
    *,
    config: Annotated[
        Path | None,
        Parameter(
            help="YAML config whose environments are those of the results, and score; that of RUN."
        ),
    ] = None,
    recording: Annotated[Recording, Parameter(name="*")] = ALL_RECORDED,
    model: Annotated[str | None, Parameter(help="Base model named in the results.")] = None,
    env: Annotated[
        tuple[str, ...], Parameter(help="Environment instead of those of the config; repeatable.")
    ] = (),
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="KEY=VALUE that overrides the file; repeatable."),
    ] = (),
    detach: Annotated[bool, Parameter(help="Submit, print the run's id and exit.")] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Evaluate what a run recorded, with the rewards that it has or with others (--score), and show the results.

    Nothing is sampled. Without --config the environments are those of RUN; --dataset needs --config, or --model and --env.

    For example:
        warren eval recorded last
        warren eval recorded monday --also tuesday --where min_version=300 --where max_version=300
        warren eval recorded last --score --config other_rewards.yaml
        warren eval recorded --dataset monday --model warren/tiny --env guess
    """
    if set_ and config is None:
        raise ConfigurationError("--set needs a --config file")
    read = recording.reader(run)
    chosen = None if config is None else read_config(config, set_)

    async def submit(client: Client) -> Evaluation:
        source = await read(client)
        return await client.evaluate(chosen, recorded=source, model=model, environments=env)

    return asyncio.run(_run(submit, gateway, detach=detach, as_json=json))


async def _run(
    submit: Callable[[Client], Coroutine[object, None, Evaluation]],
    gateway: Gateway,
    *,
    detach: bool,
    as_json: bool,
) -> int:
    output = make_output()
    async with connected(gateway) as client:
        evaluation = await submit(client)
        if detach:
            if as_json:
                print_json(evaluation.run.view)
            else:
                output.line(evaluation.run.id)
            return codes.OK
        code = await follow(client, evaluation.run, output, as_json=as_json)
        if evaluation.run.state.is_final and code == codes.OK:
            print_results(await evaluation.run.evaluation(), by="category", as_json=as_json)
    return code
