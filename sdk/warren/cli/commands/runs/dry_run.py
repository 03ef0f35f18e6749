"""`warren train --dry-run`: what would be run, whether it could be, and what it may cost.

What is printed is YAML again: the whole config, and what the gateway says of it as comments.
"""

from pathlib import Path

import yaml

from warren.cli import codes
from warren.cli.options import Gateway
from warren.client import connect
from warren.display.output import Output, print_json
from warren.display.words import count, duration
from warren.errors import (
    AuthenticationError,
    ConfigurationError,
    GatewayBusy,
    GatewayUnreachable,
)
from warren_schemas.base import Frozen
from warren_schemas.check import RunCheck, RunEstimate, RunExpectation
from warren_schemas.config import TrainConfig


class DryRun(Frozen):
    """What `--json` prints."""

    config: TrainConfig
    check: RunCheck | None
    """Null where no gateway could be asked."""
    unchecked: str | None = None
    """Why not."""


async def check(
    path: Path, config: TrainConfig, output: Output, gateway: Gateway, *, as_json: bool
) -> int:
    """Raises `ConfigurationError` for what would not run."""
    found = await _ask(config, gateway)
    if found.check is not None and found.check.mistakes:
        raise ConfigurationError(
            f"{path} can't run",
            details=found.check.mistakes,
            hint="`warren workers` lists what is online; fix the mistakes above.",
        )
    if as_json:
        print_json(found)
    else:
        output.line(in_yaml(config))
        for line in _comments(found):
            output.line(f"# {line}", "dim")
    return codes.OK


def in_yaml(config: TrainConfig) -> str:
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False).rstrip()


async def _ask(config: TrainConfig, gateway: Gateway) -> DryRun:
    try:
        async with connect(gateway.url, gateway.api_key, retry_s=0.0) as client:
            return DryRun(config=config, check=await client.check(config))
    except (AuthenticationError, GatewayBusy, GatewayUnreachable) as error:
        return DryRun(config=config, check=None, unchecked=error.message)


def _comments(found: DryRun) -> list[str]:
    if found.check is None:
        return [f"Checked here only: {found.unchecked}."]
    notes = (f"Not checked: {note}" for note in found.check.notes)
    return [*notes, *costs(found.check.estimate), *expected(found.check.expected)]


def costs(estimate: RunEstimate) -> list[str]:
    """The bounds in words."""
    episodes = f"{count(estimate.training_episodes)} episodes to train on"
    if estimate.evaluation_episodes:
        episodes += f", {count(estimate.evaluation_episodes)} to evaluate"
    if estimate.demonstrations:
        episodes += f", {count(estimate.demonstrations)} demonstrations"
    kept = f"{count(estimate.kept_checkpoints)} checkpoints kept"
    if estimate.checkpoint_bytes is not None:
        each = _size(estimate.checkpoint_bytes)
        kept += f", {each} each ({_size(estimate.checkpoint_bytes * estimate.kept_checkpoints)})"
    return [
        "At most, without what fails or grows stale and is done again:",
        f"  {episodes}",
        f"  {count(estimate.sampled_tokens)} tokens sampled",
        f"  {kept}; trajectories up to {_size(estimate.recording_bytes)}",
    ]


def expected(found: RunExpectation | None) -> list[str]:
    """What similar runs say, in words."""
    if found is None:
        return ["What it will probably take can't be told: you have no completed run like it."]
    span = f"{duration(found.least_wall_s)} to {duration(found.most_wall_s)}"
    time = duration(found.wall_s) + (f" ({span})" if len(found.runs) > 1 else "")
    return [
        f"By your last similar runs ({', '.join(found.runs)}), probably:",
        f"  {count(found.episodes)} episodes, {count(found.sampled_tokens)} tokens sampled",
        f"  {time}, besides the time in the queue",
    ]


def _size(n_bytes: int) -> str:
    number = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
