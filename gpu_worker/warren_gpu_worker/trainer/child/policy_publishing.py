"""publish_policy: put the current weights where samplers find them; keep the newest versions only.

Invariants: a version that was answered stays readable until `n_kept` newer ones are there, and for as
long as ops ask to keep it; an old one that can't be deleted now, for somebody reads it perhaps, fails
nothing.
"""

import logging
import re
from collections.abc import Collection
from functools import partial

from warren_gpu_worker.atomic_folder import delete_folder, join_url, list_folders
from warren_gpu_worker.file_progress import Progress, unheard
from warren_gpu_worker.policy_copies import LocalCopies
from warren_gpu_worker.trainer.child.checkpoint import policies_url, whole_policy
from warren_gpu_worker.trainer.training.ranks import Ranks
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_gpu_worker.weights import as_sampled, write_policy
from warren_schemas.ids import ModelId
from warren_schemas.training import KEEP_POLICIES, OpDone, Policy

_VERSION = re.compile(r"v\d+")

log = logging.getLogger(__name__)


class Publisher:
    """The policies of one model, for the time that this process trains it."""

    def __init__(
        self,
        checkpoint_url: str,
        model: ModelId,
        ranks: Ranks,
        copies: LocalCopies | None = None,
        progress: Progress = unheard,
        n_kept: int = KEEP_POLICIES,
    ) -> None:
        self._url = policies_url(checkpoint_url, model)
        self._ranks = ranks
        self._copies = copies
        self._progress = progress
        self._n_kept = n_kept
        names = ranks.by_first(lambda: list_folders(self._url))
        self._stored = {int(name[1:]) for name in names if _VERSION.fullmatch(name)}
        self._newest: Policy | None = None

    def publish(
        self, model: TrainableModel, keep: Collection[int] = (), *, is_live: bool = True
    ) -> OpDone:
        """Write the policy unless this very version was written here; old ones in `keep` stay.

        Raises `OSError`.
        """
        if self._newest is None or self._newest.version != model.version:
            url = join_url(self._url, f"v{model.version}")
            whole = as_sampled(whole_policy(model), model.network.autocast_dtype)
            size_bytes = self._ranks.by_first(
                lambda: write_policy(whole, url, self._copies, self._progress)
            )
            self._newest = Policy(version=model.version, url=url, size_bytes=size_bytes)
            self._stored.add(model.version)
            self._ranks.by_first(partial(self._delete_old, model.version, keep))
        policy = self._newest.model_copy(update={"is_live": is_live})
        return OpDone(version=model.version, policy=policy)

    def close(self) -> None:
        """This process trains the model no more."""
        if self._copies:
            self._copies.drop_copy(self._url)

    def _delete_old(self, newest: int, keep: Collection[int]) -> None:
        """A model that takes ops again after a checkpoint meets newer ones of its own, which later ops may have
        been told to keep: they count for nothing until it comes there."""
        reached = sorted(version for version in self._stored if version <= newest)
        for version in reached[: -self._n_kept]:
            if version in keep:
                continue
            url = join_url(self._url, f"v{version}")
            try:
                delete_folder(url)
            except Exception as error:  # noqa: BLE001 - a store's own; tried again next time
                log.warning("%s can't be deleted now: %s", url, error)
                return
            self._stored.discard(version)
