"""`warren infer`."""

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.adapters.handle import starting_model
from warren.cli.connecting import connected
from warren.cli.follow import follow
from warren.cli.options import HERE, Gateway, GatewayOptions
from warren.client import Client
from warren.datasets.handle import Dataset
from warren.datasets.sources import SUFFIXES
from warren.display.output import make_output
from warren.errors import ConfigurationError
from warren.evaluations.configs import of_policy
from warren.run import Run
from warren.run_configs.answers import Expected, Written, expected_of, write_answers
from warren.run_configs.configs import config_of_inference
from warren.streams.export import writer_for
from warren_schemas.base import Frozen


class _Asked(Frozen):
    policy: str | None
    model: str | None
    adapter: str | None
    split: str
    samples: int
    temperature: float
    changes: tuple[str, ...]


def infer(
    prompts: Annotated[
        str | None,
        Parameter(
            name="DATASET", help="A data set, or a .jsonl or .parquet file, which is uploaded."
        ),
    ] = None,
    /,
    *,
    to: Annotated[Path, Parameter(help="File for the answers: .jsonl or .parquet.")],
    policy: Annotated[
        str | None,
        Parameter(help="RUN@best, RUN@last, RUN@STEP or RUN@CHECKPOINT of a run that is over."),
    ] = None,
    model: Annotated[str | None, Parameter(help="Base model.")] = None,
    adapter: Annotated[
        str | None, Parameter(help="Adapter that you uploaded: NAME or NAME@DIGEST.")
    ] = None,
    split: Annotated[str, Parameter(help="Split of the data set.")] = "train",
    samples: Annotated[int, Parameter(help="Answers to each prompt.")] = 1,
    temperature: Annotated[float, Parameter(help="Sampling temperature; 0 is greedy.")] = 0.0,
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="KEY=VALUE of the run's config; repeatable."),
    ] = (),
    run: Annotated[
        str | None, Parameter(help="Fetch the answers of this inference, and start none.")
    ] = None,
    gateway: GatewayOptions = HERE,
) -> int:
    """Answer every prompt of a data set or a file, and write the answers to a file.

    A row has `messages` or `prompt`. It is an evaluation of the environment `prompts`: it survives whatever dies, and
    is listed, paused and cancelled like any run. After Ctrl-C it goes on; --run ID fetches its answers later.

    For example:
        warren infer questions.jsonl --policy last@best --to answers.jsonl
        warren infer chats --model warren/tiny --samples 4 --temperature 1 --to answers.parquet
        warren infer --run last --to answers.jsonl
    """
    writer_for(to)
    asked = _Asked(
        policy=policy,
        model=model,
        adapter=adapter,
        split=split,
        samples=samples,
        temperature=temperature,
        changes=set_,
    )
    if (prompts is None) is (run is None):
        raise ConfigurationError("Give either prompts to answer, or --run for those of a run")
    if run is None and [policy, model, adapter].count(None) != 2:
        raise ConfigurationError("Say who answers: --policy, --model or --adapter")
    return asyncio.run(_infer(prompts, run, asked, to, gateway))


async def _infer(
    prompts: str | None, name: str | None, asked: _Asked, to: Path, gateway: Gateway
) -> int:
    output = make_output()
    async with connected(gateway) as client:
        if name is not None:
            run = await client.run(name)
        else:
            run = await _submitted(client, prompts or "", asked)
            output.line(f"Submitted {run.id}; Ctrl-C lets go of it, and it goes on.", "dim")
        code = await follow(client, run, output, as_json=False)
        if not run.state.is_final:
            output.line(f"Fetch its answers with: warren infer --run {run.id} --to {to}", "dim")
            return code
        expected = expected_of(run.view)
        written = await write_answers(run.trajectories(), to, expected)
    output.line(f"{to}: {_told(written, expected)}")
    return code or int(written.n_missing > 0)


def _told(written: Written, expected: Expected | None) -> str:
    failed = f", {written.n_failed} of them failures with the reason" if written.n_failed else ""
    reason = expected.reason if expected else ""
    missing = f", {written.n_missing} without an answer: {reason}" if written.n_missing else ""
    return f"{written.n_lines} lines{failed}{missing}"


async def _submitted(client: Client, prompts: str, asked: _Asked) -> Run:
    dataset = await _dataset(client, prompts)
    split = next((each for each in dataset.view.splits if each.name == asked.split), None)
    if split is None:
        has = ", ".join(each.name for each in dataset.view.splits)
        raise ConfigurationError(f"{dataset.reference} has no split {asked.split}; it has: {has}")
    base, policy = asked.model or "", asked.policy or ""
    named, _, which = policy.rpartition("@") if "@" in policy else (policy, "", "last")
    trained = await client.run(named, trained=True) if policy else None
    if trained is not None and trained.view.config is not None:
        base = trained.view.config.model.base
    brought = None if asked.adapter is None else await client.adapters.get(asked.adapter)
    if brought is not None:
        base = brought.base_model
    config = config_of_inference(
        dataset.reference,
        split.n_rows,
        model=base,
        split=asked.split,
        samples=asked.samples,
        temperature=asked.temperature,
        changes=asked.changes,
    )
    if trained is not None:
        config = await of_policy(trained, which, config)
    elif brought is not None:
        config = config.model_copy(update={"model": starting_model(brought)})
    return await client.train(config)


async def _dataset(client: Client, prompts: str) -> Dataset:
    """A file is uploaded under its own name, as a data set like any other."""
    path = Path(prompts)
    if path.suffix in SUFFIXES:
        return await client.datasets.upload(path, path.stem)
    return await client.datasets.get(prompts)
