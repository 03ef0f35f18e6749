"""Sees to it that a policy is loaded before anybody samples from it.

A request whose policy is not loaded, or older than it needs, is parked; the files are fetched
elsewhere (reading a store may take long), and the request goes on once they are loaded. While a
fetch is under way a newer version may become known: then that one is fetched next, and an old one
that has been deleted meanwhile harms nobody.

Under `drain`, what was fetched waits until the policy's requests at the engine are answered, and
newcomers wait with it.

Version 0 of most models is the base model, and has no address. A run that starts with somebody's
adapter publishes that as version 0: where a key came without an address before, and stands for the
base model, such a request has its files fetched all the same.

Invariants: at most one fetch for each policy; every parked request is released or refused; the live
weights of a model never go back to an older version.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from warren_gpu_worker.sampler.engines.port import (
    Engine,
    PolicyKey,
    PolicyUnusable,
    Refusal,
    Request,
)
from warren_gpu_worker.sampler.messages import PolicySource, Published
from warren_gpu_worker.settings import OnNewWeights
from warren_gpu_worker.weights import PolicyFiles
from warren_schemas.episode import FailureKind

BASE_VERSION = 0
"""The version of a model that was not trained yet: the base model's own weights."""


@dataclass(frozen=True, slots=True)
class _Parked:
    request: Request
    source: PolicySource

    @property
    def version(self) -> int:
        return self.source.version


class PolicyLoader:
    """`start_fetch` must answer each call by one later `fetched` or `fetch_failed`."""

    def __init__(
        self,
        engine: Engine,
        start_fetch: Callable[[PolicySource], None],
        *,
        on_new_weights: OnNewWeights = "keep",
    ) -> None:
        self._engine = engine
        self._start_fetch = start_fetch
        self._drains = on_new_weights == "drain"
        self._recomputes = on_new_weights == "recompute"
        self._held_back: dict[PolicyKey, tuple[PolicySource, PolicyFiles]] = {}
        self._bare: set[PolicyKey] = set()
        """Those that were last loaded without files, as the base model."""
        self._wanted: dict[PolicyKey, PolicySource] = {}  # those with a fetch under way
        self._parked: dict[PolicyKey, list[_Parked]] = {}

    @property
    def n_parked(self) -> int:
        return sum(len(parked) for parked in self._parked.values())

    def submit(self, request: Request, source: PolicySource) -> Refusal | None:
        """Hand the request to the engine as soon as its policy is loaded."""
        if source.key in self._held_back:
            self._park(request, source)
            if source.version > self._held_back[source.key][0].version:
                self._want(source)
            return None
        if not self._has(source):
            if source.url is not None:
                self._park(request, source)
                self._want(source)
                return None
            if source.version != BASE_VERSION:
                return _unavailable(request, f"version {source.version} has no address")
            self._load_bare(source.key)
        self._engine.submit([request])
        return None

    def published(self, news: Published) -> None:
        """Bring the model's live weights up to date, if anybody uses them here."""
        key = PolicyKey(news.model)
        source = PolicySource(key, news.version, news.url)
        is_used = self._engine.version_of(key) is not None
        if key in self._wanted or (is_used and not self._has(source)):
            self._want(source)

    def fetched(self, source: PolicySource, files: PolicyFiles) -> list[Refusal]:
        """The files are here; refusals if they are of no use."""
        if self._drains and self._engine.has_requests(source.key):
            self._held_back[source.key] = (source, files)
            self._go_on_after(source)
            return []
        try:
            self._load(source, files)
        except PolicyUnusable as error:
            return self.fetch_failed(source, str(error))
        self._held_back.pop(
            source.key, None
        )  # an older one, whose requests were cancelled just now
        self._go_on_after(source)
        self._release(source.key)
        return []

    def settle(self) -> list[Refusal]:
        """Load what was held back for requests that are now answered; refusals if it is no use."""
        refusals: list[Refusal] = []
        for key in [k for k in self._held_back if not self._engine.has_requests(k)]:
            source, files = self._held_back.pop(key)
            try:
                self._load(source, files)
            except PolicyUnusable as error:
                refusals += self._refuse(source, str(error))
            else:
                self._release(key)
        return refusals

    def fetch_failed(self, source: PolicySource, reason: str) -> list[Refusal]:
        """Refuse those that waited, unless a newer version may still help them."""
        return [] if self._go_on_after(source) else self._refuse(source, reason)

    def cancel(self, ids: Collection[int]) -> None:
        for key, parked in list(self._parked.items()):
            self._parked[key] = [p for p in parked if p.request.id not in ids]
            if not self._parked[key]:
                del self._parked[key]

    def _load(self, source: PolicySource, files: PolicyFiles) -> None:
        self._engine.load(source.key, source.version, files, recompute=self._recomputes)
        self._bare.discard(source.key)

    def _load_bare(self, key: PolicyKey) -> None:
        self._engine.load(key, BASE_VERSION, None)
        known = {k for k in self._bare if self._engine.version_of(k) is not None}
        self._bare = known | {key}

    def _has(self, source: PolicySource) -> bool:
        """Whether what is loaded is new enough, and no base model in the place of files."""
        loaded = self._engine.version_of(source.key)
        if loaded is None or loaded < source.version:
            return False
        return source.url is None or source.key not in self._bare

    def _park(self, request: Request, source: PolicySource) -> None:
        self._parked.setdefault(source.key, []).append(_Parked(request, source))

    def _release(self, key: PolicyKey) -> None:
        """Submit those for whom the loaded version will do."""
        still_parked: list[_Parked] = []
        for parked in self._parked.pop(key, []):
            if self._has(parked.source):
                self._engine.submit([parked.request])
            else:
                still_parked.append(parked)
        if still_parked:
            self._parked[key] = still_parked

    def _refuse(self, source: PolicySource, reason: str) -> list[Refusal]:
        """Refuse those that neither what is loaded nor what is held back can serve."""
        held_back = self._held_back.get(source.key)
        if held_back is None:
            self._release(source.key)
        coming = held_back[0].version if held_back else -1
        parked = self._parked.pop(source.key, [])
        if waiting := [p for p in parked if p.version <= coming]:
            self._parked[source.key] = waiting
        refused = [p for p in parked if p.version > coming]
        return [_unavailable(p.request, f"version {source.version}: {reason}") for p in refused]

    def _want(self, source: PolicySource) -> None:
        wanted = self._wanted.get(source.key)
        if wanted is None:
            self._wanted[source.key] = source
            self._start_fetch(source)
        elif source.version > wanted.version:
            self._wanted[source.key] = source

    def _go_on_after(self, source: PolicySource) -> bool:
        """A fetch has ended; start the next one if a newer version became known meanwhile."""
        wanted = self._wanted.pop(source.key)
        if wanted.version <= source.version:
            return False
        self._want(wanted)
        return True


def _unavailable(request: Request, reason: str) -> Refusal:
    text = f"the policy {request.policy.model} can't be loaded: {reason}"
    return Refusal(request.id, FailureKind.POLICY_UNAVAILABLE, text)
