"""The part of the client that concerns models that you train by loops of your own."""

import asyncio
import secrets
from typing import Any
from urllib.parse import quote

from warren.connection.transport import Transport
from warren.deployment import Client as DeploymentClient
from warren.pending import pending
from warren.trainable.model import TrainableModel
from warren_schemas.config import Update
from warren_schemas.http import TrainableView
from warren_schemas.http.model_ops import ModelOp, ModelOpList
from warren_schemas.http.trainable import BeginFrom, CreateModel, TrainableList


class Client(DeploymentClient):
    """`warren.Client` is one."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._kept_alive: set[asyncio.Task[None]] = set()

    @pending
    async def create_model(
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
        """A model that you train by a loop of your own; returns as soon as the gateway has stored it.

        `update`: what is trained, `LoraUpdate(rank=16)` unless given. `begin_from`: `MODEL/NAME` of a checkpoint, with
        its `optimizer` or a fresh one. A model that was not heard of for `idle_s` is saved and closed; this client
        says that it is there for as long as it is open. The same `key` gives the same model.
        """
        written: dict[str, Any] = {} if update is None else {"update": update}
        if begin_from is not None:
            written["begin_from"] = BeginFrom(checkpoint=begin_from, optimizer=optimizer)
        body = CreateModel(
            base_model=base_model,
            seed=seed,
            deterministic=deterministic,
            name=name,
            metadata=metadata,
            idle_s=idle_s,
            key=key or secrets.token_hex(16),
            **written,
        )
        view = await self._transport.post("/v1/trainable", TrainableView, body)
        model = TrainableModel(self._transport, view)
        self._keep_alive(model)
        return model

    @pending
    async def models(self, *, limit: int = 50) -> list[TrainableView]:
        """The models that clients train and you may see, the newest first."""
        path = f"/v1/trainable?limit={limit}"
        return list((await self._transport.get(path, TrainableList)).models)

    @pending
    async def model(self, model: str) -> TrainableView:
        """One of them, by its id. Raises `NotFound`."""
        return await self._transport.get(f"/v1/trainable/{quote(model, safe='')}", TrainableView)

    @pending
    async def model_ops(self, model: str, *, limit: int = 20) -> tuple[ModelOp, ...]:
        """The newest ops of such a model whose outcomes are kept, newest first. Raises `NotFound`."""
        path = f"/v1/trainable/{quote(model, safe='')}/ops?limit={limit}"
        return (await self._transport.get(path, ModelOpList)).ops

    @pending
    async def close_model(self, model: str) -> TrainableView:
        """Save it and give its trainer back. Raises `NotFound`."""
        path = f"/v1/trainable/{quote(model, safe='')}/close"
        return await self._transport.post(path, TrainableView)

    def _stop_keeping_alive(self) -> None:
        """The gateway hears no more that this client is there; called when it closes."""
        for task in self._kept_alive:
            task.cancel()

    def _keep_alive(self, model: TrainableModel) -> None:
        task = asyncio.create_task(model.keep_alive(), name=f"client of {model.id}")
        self._kept_alive.add(task)
        task.add_done_callback(self._kept_alive.discard)
