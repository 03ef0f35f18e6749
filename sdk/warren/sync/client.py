"""The client of a gateway, without `await`."""

import weakref
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from warren import client as asynchronous
from warren.configs import ConfigLike
from warren.connection.loop_thread import LoopThread
from warren.episodes.taking import TaskT
from warren.run import Run as AsyncRun
from warren.run_configs.sweeps.grid import Grid
from warren.settings import Settings
from warren.streams.recording import Beginning
from warren.sync.access import Access
from warren.sync.adapters import Adapters
from warren.sync.base_models import BaseModels
from warren.sync.datasets import Dataset, Datasets
from warren.sync.deployment import Deployment
from warren.sync.episodes import Episodes
from warren.sync.evaluation import Evaluation
from warren.sync.run import Run
from warren.sync.sweep import Sweep
from warren.sync.trainable import TrainableModel
from warren_schemas.check import RunCheck
from warren_schemas.config import RecordedSource, RecordingFilter, Update
from warren_schemas.http import (
    ModelOp,
    ServedView,
    TrainableView,
)
from warren_schemas.http.runs import OnDisconnect

T = TypeVar("T")


class Client(Deployment):
    """See `warren.Client`; this one is open at once."""

    def __init__(self, client: asynchronous.Client) -> None:
        super().__init__(LoopThread(), client)
        self._thread.call(client.__aenter__())
        self._closing = weakref.finalize(self, _close, self._thread, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection. Closing again changes nothing."""
        self._closing()

    @property
    def settings(self) -> Settings:
        return self._client.settings

    @property
    def access(self) -> Access:
        """Users, API keys and the audit log."""
        return Access(self._thread, self._client.access)

    @property
    def datasets(self) -> Datasets:
        """Data sets: upload, find, delete."""
        return Datasets(self._thread, self._client.datasets)

    @property
    def adapters(self) -> Adapters:
        """LoRA adapters of yours: upload, find, delete."""
        return Adapters(self._thread, self._client.adapters)

    @property
    def base_models(self) -> BaseModels:
        """Base models of yours: upload, find, delete."""
        return BaseModels(self._thread, self._client.base_models)

    def train(
        self,
        config: ConfigLike,
        *,
        idempotency_key: str | None = None,
        priority: int = 0,
        on_disconnect: OnDisconnect = "detach",
        client_lease_s: float | None = None,
    ) -> Run:
        """Submit a run; return as soon as the gateway has stored it. With `on_disconnect="cancel"` it is saved and
        cancelled when this client is closed, or its process is gone."""
        submitted = self._client.train(
            config,
            idempotency_key=idempotency_key,
            priority=priority,
            on_disconnect=on_disconnect,
            client_lease_s=client_lease_s,
        )
        return self._run(submitted)

    def sweep(
        self, config: ConfigLike, values: Grid, *, name: str | None = None, priority: int = 0
    ) -> Sweep:
        """Submit a run for each combination of values: `{"seed": [1, 2]}`; the same name gives the same runs."""
        asked = self._client.sweep(config, values, name=name, priority=priority)
        return Sweep(self._thread, self._call(asked))

    def evaluate(
        self,
        config: "ConfigLike | None" = None,
        *,
        policy: str | None = None,
        model: str | None = None,
        adapter: str | None = None,
        environments: Sequence[str] = (),
        episodes: int | None = None,
        samples: int | None = None,
        temperature: float | None = None,
        recorded: RecordedSource | None = None,
        idempotency_key: str | None = None,
    ) -> Evaluation:
        """Submit an evaluation of a base model, with `policy="RUN@best"` of a checkpoint of a run, or of what is `recorded`."""
        asked = self._client.evaluate(
            config,
            policy=policy,
            model=model,
            adapter=adapter,
            environments=environments,
            episodes=episodes,
            samples=samples,
            temperature=temperature,
            recorded=recorded,
            idempotency_key=idempotency_key,
        )
        return Evaluation(self._thread, self._call(asked))

    def create_model(
        self,
        base_model: str,
        *,
        update: Update | None = None,
        seed: int = 0,
        deterministic: bool = False,
        name: str = "model",
        begin_from: str | None = None,
        optimizer: bool = True,
        metadata: dict[str, Any] | None = None,
        idle_s: float = 600.0,
        key: str | None = None,
    ) -> TrainableModel:
        """A model that you train by a loop of your own."""
        asked = self._client.create_model(
            base_model,
            update=update,
            seed=seed,
            deterministic=deterministic,
            name=name,
            begin_from=begin_from,
            optimizer=optimizer,
            metadata=metadata,
            idle_s=idle_s,
            key=key,
        )
        return TrainableModel(self._thread, self._call(asked))

    def models(self, *, limit: int = 50) -> list[TrainableView]:
        """The models that clients train and you may see, the newest first."""
        return self._call(self._client.models(limit=limit))

    def model(self, model: str) -> TrainableView:
        """One of them, by its id."""
        return self._call(self._client.model(model))

    def model_ops(self, model: str, *, limit: int = 20) -> tuple[ModelOp, ...]:
        """The newest ops of such a model whose outcomes are kept, newest first. Raises `NotFound`."""
        return self._call(self._client.model_ops(model, limit=limit))

    def close_model(self, model: str) -> TrainableView:
        """Save it and give its trainer back."""
        return self._call(self._client.close_model(model))

    def check(self, config: ConfigLike) -> RunCheck:
        """Whether the gateway could run this config now, and what it may cost; submits nothing."""
        return self._call(self._client.check(config))

    def replay(
        self,
        run: Run | Dataset | str,
        into: ConfigLike,
        *,
        from_: Beginning = None,
        also: Sequence[Run | str] = (),
        where: RecordingFilter | Mapping[str, object] | None = None,
        epochs: int = 1,
        shuffle_window: int | None = None,
        from_archive: bool = False,
        score: bool = False,
        idempotency_key: str | None = None,
    ) -> Run:
        """Submit a run that trains on what other runs recorded, all of it or what a filter leaves."""
        asked = self._client.replay(
            run.handle if isinstance(run, Dataset) else _id_of(run),
            into,
            from_=from_,
            also=[_id_of(each) for each in also],
            where=where,
            epochs=epochs,
            shuffle_window=shuffle_window,
            from_archive=from_archive,
            score=score,
            idempotency_key=idempotency_key,
        )
        return self._run(asked)

    def episodes(
        self,
        run: Run | str,
        *,
        environment: str | None = None,
        tasks: Sequence[TaskT] = (),
        max_live: int | None = None,
    ) -> Episodes[TaskT]:
        """Play a run's episodes in a loop of your own: `with client.episodes(run) as episodes`."""
        chosen = run if isinstance(run, str) else str(run.id)
        made = self._client.episodes(
            chosen, environment=environment, tasks=tasks, max_live=max_live
        )
        return Episodes(self._thread, made)

    def serve(
        self,
        name: str,
        run: Run | str | None = None,
        *,
        model: str | None = None,
        adapter: str | None = None,
    ) -> ServedView:
        """Serve `run="RUN@best"`, what a run publishes, a base model or an adapter under a name; repoint it."""
        chosen = str(run.id) if isinstance(run, Run) else run
        return self._call(self._client.serve(name, chosen, model=model, adapter=adapter))

    def served(self) -> tuple[ServedView, ...]:
        """The names that you may use, yours first."""
        return self._call(self._client.served())

    def stop_serving(self, name: str, *, owner: str | None = None) -> ServedView:
        """Stop serving a name; `owner` is for admins."""
        return self._call(self._client.stop_serving(name, owner=owner))

    def run(self, name: str, *, only_one: bool = False, trained: bool = False) -> Run:
        """The run with this id, name or end of an id; `last` is the newest, with `trained` of those that train."""
        return self._run(self._client.run(name, only_one=only_one, trained=trained))

    def runs(self, *, limit: int = 50, sweep: str | None = None) -> list[Run]:
        """Your newest runs, the newest first, or those of a sweep; at most `limit`, which is at most 500."""
        found = self._call(self._client.runs(limit=limit, sweep=sweep))
        return [Run(self._thread, run) for run in found]

    def _run(self, answer: Coroutine[object, None, AsyncRun]) -> Run:
        return Run(self._thread, self._call(answer))


def connect(
    url: str | None = None,
    api_key: str | None = None,
    *,
    timeout_s: float = 30.0,
    retry_s: float = 10.0,
) -> Client:
    """A client of the gateway at `url`; see `warren.connect`."""
    return Client(asynchronous.connect(url, api_key, timeout_s=timeout_s, retry_s=retry_s))


def _id_of(run: Run | str) -> str:
    return run if isinstance(run, str) else str(run.id)


def _close(thread: LoopThread, client: asynchronous.Client) -> None:
    thread.call(client.__aexit__(None, None, None))
    thread.stop()
