"""What the routes of the protocol work with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warren_gateway.budgets.budget import Budget
from warren_gateway.inference.questions import Questions
from warren_gateway.registry import Registry
from warren_gateway.store.store import Store
from warren_gateway.tinker.accounts import Accounts
from warren_gateway.tinker.downloads import Downloads
from warren_gateway.tinker.runs import TrainedModels
from warren_gateway.tinker.sample_futures import SampleFutures
from warren_gateway.tinker.sessions import TinkerSessions
from warren_schemas.control import WorkerRole


@dataclass(frozen=True, slots=True)
class Tinker:
    sessions: TinkerSessions
    models: TrainedModels
    futures: SampleFutures
    downloads: Downloads
    accounts: Accounts
    trainable: Callable[[], Sequence[str]]
    """Base models that some live trainer offers."""


def tinker_of(store: Store, questions: Questions, budget: Budget, registry: Registry) -> Tinker:
    """`budget` is of the answers that owners wait for."""

    def trainable() -> list[str]:
        trainers = registry.alive(WorkerRole.TRAINER)
        return sorted({base for trainer in trainers for base in trainer.offers})

    futures = SampleFutures(questions, budget)
    return Tinker(
        TinkerSessions(store),
        TrainedModels(store),
        futures,
        Downloads(store),
        Accounts(store),
        trainable,
    )
