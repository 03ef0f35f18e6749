"""`warren export`: a run's weights as a folder for other tools.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

import asyncio
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.cli.connecting import RETRY_S, connected
from warren.cli.options import HERE, Gateway, GatewayOptions


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

    An adapter is merged into its base model. RUN is the newest policy, RUN@400 the policy
    after step 400, RUN@v750 policy version 750, RUN@step-000400 the checkpoint of that name
    (`warren checkpoints ls`).

    For example:
        warren export last --to my-model
        warren export guess@step-000400 --to my-adapter --adapter

    Parameters
    ----------
    run
        Id, end of the id, name or `last`, optionally with @STEP, @vVERSION (of the policy) or @CHECKPOINT.
    to
        Target folder; must not exist yet.
    base_model
        Where to find the base model: NAME=FOLDER, a folder or a name on the Hugging Face hub.
    adapter
        Write the adapter alone, in peft's format.
    """
    from warren.display.output import make_output
    from warren.errors import ConfigurationError
    from warren.version import install_extra

    if not adapter and find_spec("torch") is None:
        raise ConfigurationError(
            "Merging an adapter, and a model's tokenizer, need torch and transformers",
            hint=f"Install them with: {install_extra('gpu')}; or export with --adapter, or fetch"
            f" the files with: warren checkpoints download {run} --to {to}",
        )
    if to.exists():
        raise ConfigurationError(f"{to} already exists", hint="Name a new folder.")
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{to.name}-", dir=to.parent) as stage:
        url, base = asyncio.run(_fetch(run, gateway, Path(stage) / "policy"))
        if adapter:
            kind = _take_adapter(Path(stage) / "policy", to)
        else:
            kind = _merge(run, Path(stage) / "policy", to, base_model or base)
    make_output().line(f"{to}: {kind}, from {url}")
    return 0


def _take_adapter(policy: Path, to: Path) -> str:
    """A policy's adapter lies there as peft has it."""
    from warren.errors import ConfigurationError

    names = ("adapter_model.safetensors", "adapter_config.json")
    if not all((policy / name).exists() for name in names):
        raise ConfigurationError(
            "All weights of this model were trained: it has no adapter",
            hint="Leave out --adapter.",
        )
    for path in policy.iterdir():
        if path.name not in names:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    policy.rename(to)
    return "adapter"


def _merge(run: str, policy: Path, to: Path, base: str) -> str:
    from warren.errors import ConfigurationError
    from warren_gpu_worker.atomic_folder import FolderUnreadable
    from warren_gpu_worker.base_models import UnknownBaseModel
    from warren_gpu_worker.export import CannotExport, export_policy

    try:
        return export_policy(str(policy), to, base_folder=_base_folder(base))
    except (CannotExport, FolderUnreadable, UnknownBaseModel, OSError) as error:
        raise ConfigurationError(
            f"{run} was not exported: {error}",
            hint="Run it where the base model can be read, or name it with --base-model.",
        ) from error


async def _fetch(target: str, gateway: Gateway, to: Path) -> tuple[str, str]:
    """Where the weights lay, and the name of the base model."""
    from warren.errors import ConfigurationError

    name, _, wanted = target.partition("@")
    async with connected(gateway) as client:
        run = await client.run(name, trained=True)
        if run.view.config is None:
            raise ConfigurationError(
                f"the gateway is older than {run.id} and can't read its config",
                hint="Ask a gateway of the newer version, or wait until all are upgraded.",
            )
        folder = await run.download(to, wanted, reconnect_s=RETRY_S)
    return folder.url, run.view.config.model.base


def _base_folder(base: str) -> str:
    from warren_gpu_worker.base_models import resolve_base_models
    from warren_gpu_worker.settings import warren_home

    (folder,) = resolve_base_models([base], warren_home() / "models").values()
    return folder
