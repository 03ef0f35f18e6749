"""Several machines agree before they train: on settings, on the number of devices, on what the base models are.

Ranks that disagree would compute different things in the same op: at best they wait for each other in vain, at worst
nobody notices.
"""

from warren_gpu_worker.base_models.fingerprint import fingerprint
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.training.ranks import Ranks


class Disagreement(ValueError):
    """Says what differs."""


def agreed_settings(own: GpuWorkerSettings, ranks: Ranks) -> GpuWorkerSettings:
    """Those of the first rank, with what this machine has of its own. Raises `Disagreement`, on all ranks alike."""
    settings = ranks.gather(own)[0].with_own(own)
    if ranks.size != settings.n_ranks:
        raise Disagreement(
            f"{settings.machines} machines with {settings.devices} devices each have {settings.n_ranks},"
            f" and here are {ranks.size}; give the same --machines and --devices on each"
        )
    if settings.machines > 1:
        _check_base_models(own, ranks)
    return settings


def _check_base_models(own: GpuWorkerSettings, ranks: Ranks) -> None:
    mine = {name: fingerprint(folder) for name, folder in own.base_models.items()}
    first, *others = ranks.gather(mine)
    for name, digest in first.items():
        for other in others:
            if other.get(name) != digest:
                found = "is another one" if name in other else "is missing"
                raise Disagreement(
                    f"base model {name} {found} on a machine that joins; give the same --base-model on each"
                )
