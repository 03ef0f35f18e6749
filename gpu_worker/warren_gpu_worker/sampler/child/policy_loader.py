"""Sees to it that a policy is loaded before anybody samples from it.

A turn whose policy is not loaded, or older than it needs, waits; the files are fetched
elsewhere (reading a store may take long), and its request goes to the engine once they are loaded. While a
fetch is under way a newer version may become known: then that one is fetched next, and an old one
that has been deleted meanwhile harms nobody.

Under `drain`, what was fetched waits until the policy's requests at the engine are answered, and
newcomers wait with it.

Version 0 of most models is the base model, and has no address. A run that starts with somebody's
adapter publishes that as version 0: where a key came without an address before, and stands for the
base model, such a turn has its files fetched all the same.

Invariants: at most one fetch for each policy; every waiting turn is released, refused or cancelled; the live
weights of a model never go back to an older version.
"""

import time
from collections.abc import Callable

from warren_gpu_worker.sampler.child.accepted_turns import AcceptedTurn, AcceptedTurns
from warren_gpu_worker.sampler.engines.port import Engine, PolicyKey, PolicyUnusable, Refusal
from warren_gpu_worker.sampler.messages import PolicySource, Published
from warren_gpu_worker.settings import OnNewWeights
from warren_gpu_worker.weights import PolicyFiles
from warren_schemas.episode import FailureKind

BASE_VERSION = 0
"""The version of a model that was not trained yet: the base model's own weights."""


class PolicyLoader:
    """`start_fetch` must answer each call by one later `fetched` or `fetch_failed`."""

    def __init__(
        self,
        engine: Engine,
        turns: AcceptedTurns,
        start_fetch: Callable[[PolicySource], None],
        *,
        on_new_weights: OnNewWeights = "keep",
    ) -> None:
        self._engine = engine
        self._turns = turns
        self._start_fetch = start_fetch
        self._drains = on_new_weights == "drain"
        self._recomputes = on_new_weights == "recompute"
        self._held_back: dict[PolicyKey, tuple[PolicySource, PolicyFiles]] = {}
        self._bare: set[PolicyKey] = set()
        """Those that were last loaded without files, as the base model."""
        self._wanted: dict[PolicyKey, PolicySource] = {}  # those with a fetch under way

    def submit_turn(self, turn: AcceptedTurn) -> None:
        """Hand the turn's request to the engine as soon as its policy is loaded."""
        source = turn.policy
        if source.key in self._held_back:
            turn.is_waiting = True
            if source.version > self._held_back[source.key][0].version:
                self._want(source)
        elif self._has(source):
            self._submit_now(turn)
        elif source.url is not None:
            turn.is_waiting = True
            self._want(source)
        elif source.version == BASE_VERSION:
            self._load_bare(source.key)
            self._submit_now(turn)
        else:
            self._refuse_turn(turn, f"version {source.version} has no address")

    def note_published(self, news: Published) -> None:
        """Bring the model's live weights up to date, if anybody uses them here."""
        key = PolicyKey(news.model)
        source = PolicySource(key, news.version, news.url)
        is_used = self._engine.version_of(key) is not None
        if key in self._wanted or (is_used and not self._has(source)):
            self._want(source)

    def fetched(self, source: PolicySource, files: PolicyFiles) -> None:
        """The files are here; they may be of no use."""
        if self._drains and self._engine.has_requests(source.key):
            held_back = self._held_back.get(source.key)
            if held_back is None or held_back[0].version < source.version:
                self._held_back[source.key] = (source, files)
            self._go_on_after(source)
            return
        try:
            self._load(source, files)
        except PolicyUnusable as error:
            return self.fetch_failed(source, str(error))
        # an older one may be held back still, whose requests were cancelled just now
        self._held_back.pop(source.key, None)
        self._go_on_after(source)
        self._release(source.key)

    def settle(self) -> None:
        """Load what was held back for requests that are now answered."""
        for key in [k for k in self._held_back if not self._engine.has_requests(k)]:
            source, files = self._held_back.pop(key)
            try:
                self._load(source, files)
            except PolicyUnusable as error:
                self._refuse(source, str(error))
            else:
                self._release(key)

    def fetch_failed(self, source: PolicySource, reason: str) -> None:
        """Refuse those that waited, unless a newer version may still help them."""
        if not self._go_on_after(source):
            self._refuse(source, reason)

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

    def _submit_now(self, turn: AcceptedTurn) -> None:
        assert turn.request, "a turn comes here with its prompt"
        turn.is_waiting = False
        turn.submitted_s = time.monotonic()
        turn.engine_s_before = self._turns.engine_time.per_turn_s
        for refusal in self._engine.add_requests([turn.request]):
            self._turns.answer(refusal)

    def _release(self, key: PolicyKey) -> None:
        """Submit those for whom the loaded version will do."""
        for turn in self._turns.waiting(key):
            if self._has(turn.policy):
                self._submit_now(turn)

    def _refuse(self, source: PolicySource, reason: str) -> None:
        """Refuse those that neither what is loaded nor what is held back can serve."""
        held_back = self._held_back.get(source.key)
        if held_back is None:
            self._release(source.key)
        coming = held_back[0].version if held_back else -1
        for turn in self._turns.waiting(source.key):
            if turn.policy.version > coming:
                self._refuse_turn(turn, f"version {source.version}: {reason}")

    def _refuse_turn(self, turn: AcceptedTurn, reason: str) -> None:
        text = f"the policy {turn.policy.key.model} can't be loaded: {reason}"
        self._turns.answer(Refusal(turn.id, FailureKind.POLICY_UNAVAILABLE, text))

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
