"""`warren export`: a run's weights as a folder for other tools.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from warren.cli.options import HERE, RETRY_S, Gateway, GatewayOptions

if TYPE_CHECKING:
    from warren_schemas.http import CheckpointList


def export(
    run: Annotated[str, Parameter(name="RUN")],
    /,
    *,
    to: Path,
    base_model: str | None = None,
    adapter: bool = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Write a run's weights to a folder that transformers and vLLM load.

    An adapter is merged into its base model. RUN alone is the newest policy; RUN@400 the policy in force
    after step 400 of the run, RUN@step-000400 the checkpoint of that name (`warren checkpoints ls`).

    For example:
        warren export last --to my-model
        warren export guess@step-000400 --to my-adapter --adapter

    Parameters
    ----------
    run
        The run's id, the end of its id, its name, or `last`, and perhaps @STEP or @CHECKPOINT.
    to
        The folder; it must not be there yet.
    base_model
        NAME=FOLDER, a folder or a name on the Hugging Face hub, where the run's own name of its base
        model is none of these.
    adapter
        Write the adapter alone, in peft's format.
    """
    from warren.cli.output import make_output
    from warren.errors import ConfigurationError
    from warren_gpu_worker.base_models import UnknownBaseModel
    from warren_gpu_worker.export import CannotExport, export_policy
    from warren_gpu_worker.sealed_folder import FolderUnreadable

    url, base = asyncio.run(_find(run, gateway))
    try:
        folder = None if adapter else _base_folder(base_model or base)
        kind = export_policy(url, to, base_folder=folder, adapter=adapter)
    except (CannotExport, FolderUnreadable, UnknownBaseModel, OSError) as error:
        raise ConfigurationError(
            f"{run} was not exported: {error}",
            hint="Run it where the GPU workers' --checkpoints and the base model can be read.",
        ) from error
    make_output().line(f"{to}: {kind}, from {url}")
    return 0


async def _find(target: str, gateway: Gateway) -> tuple[str, str]:
    """The URL of the weights, and the name of the base model."""
    from warren.client import connect
    from warren.errors import ConfigurationError

    name, _, wanted = target.partition("@")
    async with connect(gateway.url, gateway.api_key, retry_s=RETRY_S) as client:
        run = await client.run(name)
        found = await run.checkpoints()
    url = choose(found, wanted)
    if url is None:
        what = f"no policy of {_called(wanted)}" if wanted else "nothing to export yet"
        raise ConfigurationError(f"{run.id} has {what}", hint=_hint(found))
    if run.view.config is None:
        raise ConfigurationError(
            f"the gateway is older than {run.id} and can't read its config",
            hint="Ask a gateway of the newer version, or wait until all are upgraded.",
        )
    return url, run.view.config.model.base


def choose(found: "CheckpointList", wanted: str) -> str | None:
    """The URL of what `wanted` names, a step or a checkpoint; the newest policy where it names nothing."""
    if not wanted:
        newest = [view.url for view in (*found.checkpoints, *found.policies)]
        return newest[-1] if newest else None
    is_step = wanted.isascii() and wanted.isdecimal()
    for view in found.checkpoints:
        if view.name in (wanted, f"step-{int(wanted):06d}" if is_step else ""):
            return view.url
    policy = found.policy_after(int(wanted)) if is_step else None
    return policy and policy.url


def _called(wanted: str) -> str:
    return f"step {wanted}" if wanted.isdecimal() else f"checkpoint {wanted}"


def _hint(found: "CheckpointList") -> str:
    names = ", ".join(view.name for view in found.checkpoints) or "none"
    kept = f"step {found.policies[0].step} on" if found.policies else "none"
    return f"It is at step {found.step}. Its checkpoints: {names}; policies that are kept: {kept}."


def _base_folder(base: str) -> str:
    from warren_gpu_worker.base_models import resolve_base_models
    from warren_gpu_worker.settings import warren_home

    (folder,) = resolve_base_models([base], warren_home() / "models").values()
    return folder
