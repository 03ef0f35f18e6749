"""Policies are fetched when they are needed, once, and nobody waits for ever."""

import numpy as np
from tests.support.sampling import FREE, LIVE, completions, nudged, tiny_engine
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.child.accepted_turns import AcceptedTurns
from warren_gpu_worker.sampler.child.policy_loader import PolicyLoader
from warren_gpu_worker.sampler.engines.port import PolicyKey, Refusal, Request
from warren_gpu_worker.sampler.engines.transformers.engine import TransformersEngine
from warren_gpu_worker.sampler.messages import PolicySource, Published, TurnRequest
from warren_gpu_worker.settings import OnNewWeights
from warren_gpu_worker.weights import PolicyFiles
from warren_schemas.episode import FailureKind

PROMPT_T = np.array([2, 45], np.int32)
KEY = PolicyKey("model_x")


class LoaderUnderTest:
    """A policy loader whose fetches are answered by the test."""

    def __init__(self, base: PreTrainedModel, on_new_weights: OnNewWeights = "keep") -> None:
        self.engine: TransformersEngine = tiny_engine(base)
        self.fetches: list[PolicySource] = []
        self.turns = AcceptedTurns()
        self.policy_loader = PolicyLoader(
            self.engine, self.turns, self.fetches.append, on_new_weights=on_new_weights
        )
        self.base = base

    def submit(self, number: int, version: int, url: str | None = "file:///v") -> None:
        source, nothing = PolicySource(KEY, version, url), np.zeros(0, np.int32)
        turn = self.turns.accept(TurnRequest(number, source, nothing, (), FREE, None))
        turn.request = Request(number, KEY, PROMPT_T, FREE)
        self.policy_loader.submit_turn(turn)

    def refused(self) -> list[Refusal]:
        """Those that nobody was told yet."""
        return [a for a in self.turns.take_answers() if isinstance(a, Refusal)]

    def cancel(self, ids: set[int]) -> None:
        self.turns.cancel(ids)
        self.engine.cancel(ids)

    def files(self, version: int) -> PolicyFiles:
        return nudged(self.base, seed=version)

    @property
    def fetched_versions(self) -> list[int]:
        return [source.version for source in self.fetches]


def test_requests_wait_for_the_version_that_they_need(tiny: PreTrainedModel) -> None:
    it = LoaderUnderTest(tiny)
    for number in range(3):
        it.submit(number, version=4)
    assert not it.engine.has_work
    assert it.fetched_versions == [4], "one fetch for all of them"
    it.policy_loader.fetched(it.fetches[0], it.files(4))
    it.submit(3, version=2)  # a newer one will do
    done = completions(it.engine)
    assert sorted(done) == [0, 1, 2, 3]
    assert {v for d in done.values() for v in d.versions_T.tolist()} == {4}


def test_the_base_model_needs_no_fetch(tiny: PreTrainedModel) -> None:
    it = LoaderUnderTest(tiny)
    it.submit(1, version=0, url=None)
    assert completions(it.engine)[1].versions_T[0] == 0
    it.submit(2, version=3, url=None)
    (refusal,) = it.refused()
    assert refusal.kind is FailureKind.POLICY_UNAVAILABLE


def test_a_newer_version_known_meanwhile_is_fetched_next(tiny: PreTrainedModel) -> None:
    it = LoaderUnderTest(tiny)
    it.submit(1, version=1)
    it.policy_loader.note_published(Published(KEY.model, 5, "file:///v5"))
    it.policy_loader.note_published(Published(KEY.model, 3, "file:///v3"))
    it.submit(2, version=2)
    it.policy_loader.fetched(it.fetches[0], it.files(1))
    assert it.fetched_versions == [1, 5]
    assert sorted(completions(it.engine)) == [1]
    it.policy_loader.fetched(it.fetches[1], it.files(5))
    assert sorted(completions(it.engine)) == [2]
    it.policy_loader.note_published(Published(KEY.model, 4, "file:///v4"))
    assert it.fetched_versions == [1, 5]


def test_an_old_version_that_is_gone_harms_nobody_when_a_newer_is_known(
    tiny: PreTrainedModel,
) -> None:
    it = LoaderUnderTest(tiny)
    it.submit(1, version=1)
    it.policy_loader.note_published(Published(KEY.model, 2, "file:///v2"))
    it.policy_loader.fetch_failed(it.fetches[0], "is not there")
    assert it.refused() == []
    it.policy_loader.fetched(it.fetches[1], it.files(2))
    assert completions(it.engine)[1].versions_T[0] == 2


def test_when_no_version_can_be_had_those_who_waited_are_told(tiny: PreTrainedModel) -> None:
    it = LoaderUnderTest(tiny)
    it.submit(1, version=1)
    it.submit(2, version=1)
    it.policy_loader.fetch_failed(it.fetches[0], "is not there")
    refusals = it.refused()
    assert [(r.id, r.kind) for r in refusals] == [
        (1, FailureKind.POLICY_UNAVAILABLE),
        (2, FailureKind.POLICY_UNAVAILABLE),
    ]
    assert "is not there" in refusals[0].reason
    it.submit(3, version=1)
    assert it.fetched_versions == [1, 1], "the next request tries again"


def test_files_that_do_not_fit_are_told_to_those_who_waited(tiny: PreTrainedModel) -> None:
    it = LoaderUnderTest(tiny)
    it.submit(1, version=1)
    it.policy_loader.fetched(it.fetches[0], PolicyFiles("full", {}, None))
    (refusal,) = it.refused()
    assert "tensors are missing" in refusal.reason


def test_cancelled_requests_wait_no_longer(tiny: PreTrainedModel) -> None:
    it = LoaderUnderTest(tiny)
    it.submit(1, version=1)
    it.submit(2, version=1)
    it.cancel({1})
    it.policy_loader.fetched(it.fetches[0], it.files(1))
    assert sorted(completions(it.engine)) == [2]


def test_under_drain_requests_finish_first_and_newcomers_wait(tiny: PreTrainedModel) -> None:
    it = LoaderUnderTest(tiny, "drain")
    it.submit(1, version=1)
    it.policy_loader.fetched(it.fetches[0], it.files(1))
    it.policy_loader.note_published(Published(KEY.model, 2, "file:///v2"))
    it.policy_loader.fetched(it.fetches[1], it.files(2))
    it.submit(2, version=1)
    it.policy_loader.settle()
    assert it.refused() == []
    assert {v for d in completions(it.engine).values() for v in d.versions_T.tolist()} == {1}
    it.policy_loader.settle()
    assert it.refused() == []
    done = completions(it.engine)
    assert set(done[2].versions_T.tolist()) == {2}


def test_under_drain_files_that_do_not_fit_leave_the_old_version_at_work(
    tiny: PreTrainedModel,
) -> None:
    it = LoaderUnderTest(tiny, "drain")
    it.submit(1, version=1)
    it.policy_loader.fetched(it.fetches[0], it.files(1))
    it.policy_loader.note_published(Published(KEY.model, 2, "file:///v2"))
    it.policy_loader.fetched(it.fetches[1], PolicyFiles("full", {}, None))
    it.submit(2, version=1)
    it.submit(3, version=2)
    completions(it.engine)
    it.policy_loader.settle()
    (refusal,) = it.refused()
    assert refusal.id == 3
    assert completions(it.engine)[2].versions_T[0] == 1


def test_under_drain_a_fetch_that_fails_costs_nobody_what_is_held_back(
    tiny: PreTrainedModel,
) -> None:
    it = LoaderUnderTest(tiny, "drain")
    it.submit(1, version=1)
    it.policy_loader.fetched(it.fetches[0], it.files(1))
    it.policy_loader.note_published(Published(KEY.model, 2, "file:///v2"))
    it.policy_loader.fetched(it.fetches[1], it.files(2))
    it.submit(2, version=2)
    it.submit(3, version=3)
    it.policy_loader.fetch_failed(it.fetches[2], "is not there")
    assert [refusal.id for refusal in it.refused()] == [3]
    completions(it.engine)
    it.policy_loader.settle()
    assert it.refused() == []
    assert set(completions(it.engine)[2].versions_T.tolist()) == {2}


def test_under_drain_what_is_held_back_never_replaces_a_newer_version(
    tiny: PreTrainedModel,
) -> None:
    it = LoaderUnderTest(tiny, "drain")
    it.submit(1, version=1)
    it.policy_loader.fetched(it.fetches[0], it.files(1))
    for version in (2, 3):
        it.policy_loader.note_published(Published(KEY.model, version, f"file:///v{version}"))
    it.policy_loader.fetched(it.fetches[1], it.files(2))
    it.cancel({1})
    it.policy_loader.fetched(it.fetches[2], it.files(3))
    it.policy_loader.settle()
    assert it.refused() == []
    assert it.engine.version_of(KEY) == 3


def test_under_drain_late_news_of_an_older_version_leave_the_newer_one_held_back(
    tiny: PreTrainedModel,
) -> None:
    it = LoaderUnderTest(tiny, "drain")
    it.submit(1, version=1)
    it.policy_loader.fetched(it.fetches[0], it.files(1))
    for fetch, version in enumerate((3, 2), 1):
        it.policy_loader.note_published(Published(KEY.model, version, f"file:///v{version}"))
        it.policy_loader.fetched(it.fetches[fetch], it.files(version))
    it.submit(2, version=3)
    completions(it.engine)
    it.policy_loader.settle()
    assert it.refused() == []
    assert set(completions(it.engine)[2].versions_T.tolist()) == {3}


def test_news_of_models_that_nobody_samples_here_is_ignored(tiny: PreTrainedModel) -> None:
    it = LoaderUnderTest(tiny)
    it.policy_loader.note_published(Published("model_unknown", 1, "file:///v1"))
    assert it.fetches == []
    it.policy_loader.note_published(Published(LIVE.model, 1, "file:///v1"))
    assert it.fetched_versions == [1]


def test_a_version_0_with_an_address_is_fetched_though_the_base_model_stood_for_it(
    tiny: PreTrainedModel,
) -> None:
    it = LoaderUnderTest(tiny)
    it.submit(1, version=0, url=None)
    of_base = completions(it.engine)[1].ids_T.tolist()
    it.submit(2, version=0)
    it.submit(3, version=0)
    assert it.fetched_versions == [0]
    assert not it.engine.has_work, "they wait for the adapter"
    it.policy_loader.fetched(it.fetches[0], it.files(5))
    done = completions(it.engine)
    assert sorted(done) == [2, 3]
    assert of_base != done[2].ids_T.tolist()
    it.submit(4, version=0)
    assert it.fetched_versions == [0], "now it is there"


def test_a_version_0_that_can_not_be_had_is_not_the_base_model(tiny: PreTrainedModel) -> None:
    it = LoaderUnderTest(tiny)
    it.submit(1, version=0, url=None)
    completions(it.engine)
    it.submit(2, version=0)
    it.policy_loader.fetch_failed(it.fetches[0], "is not there")
    (refusal,) = it.refused()
    assert refusal.id == 2
    assert not it.engine.has_work


def test_a_version_0_that_is_published_takes_the_place_of_the_base_model(
    tiny: PreTrainedModel,
) -> None:
    it = LoaderUnderTest(tiny)
    it.submit(1, version=0, url=None)
    it.policy_loader.note_published(Published(KEY.model, 0, "file:///v0"))
    assert it.fetched_versions == [0]
