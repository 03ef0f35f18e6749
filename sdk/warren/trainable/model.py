"""The handle of a model that you train by a loop of your own.

Each op is accepted when its method returns, and numbered, so that ops take effect in the order of the calls,
whatever overtakes what on the way: call the next one without waiting for what came of the one before.

Invariant: no number that was given out is left open. One that the gateway refused, or that it may not have got, is
given to a `skip` before the next op, which else would wait for it in vain.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from warren.connection.transport import Transport
from warren.errors import GatewayBusy, GatewayError, GatewayUnreachable
from warren.pending import pending
from warren.trainable.future import Future
from warren.trainable.retrying import with_retries
from warren_schemas.config import CrossEntropyLoss, KlPenalty, Loss
from warren_schemas.http import Datum, FutureDone, TrainableView
from warren_schemas.http.trainable import (
    Asking,
    AskOp,
    ForwardAsked,
    ForwardBackwardAsked,
    FutureView,
    LoadStateAsked,
    PublishAsked,
    SavedName,
    SavedWeights,
    SaveStateAsked,
    SetTtl,
    SkipAsked,
)
from warren_schemas.ids import ModelId
from warren_schemas.openai.generate import GenerateRequest, GenerateResponse, SamplingParams
from warren_schemas.training import OptimStep

CustomLoss = Callable[
    [Sequence[Datum], list[NDArray[np.float32]]], tuple[float, Sequence[NDArray[Any]]]
]
"""Of the data and the logprobs of each one's tokens: the loss, and its derivatives by these logprobs."""
BEATS_IN_IDLE_TIME = 10


class TrainableModel:
    """`Client.create_model` makes one."""

    def __init__(self, transport: Transport, view: TrainableView) -> None:
        self._transport = transport
        self._view = view
        self._next_sequence = view.next_sequence
        self._unfilled: set[int] = set()
        """Numbers that the gateway may know of no op of."""

    def __repr__(self) -> str:
        return f"<TrainableModel {self.id} ({self._view.base_model})>"

    @property
    def view(self) -> TrainableView:
        """The model as it was when last looked at."""
        return self._view

    @property
    def id(self) -> ModelId:
        return self._view.id

    @pending
    async def refresh(self) -> TrainableView:
        """Look again; the answer is `view` from then on."""
        self._view = await self._transport.get(self._path(), TrainableView)
        return self._view

    @pending
    async def forward(
        self, data: Sequence[Datum], loss: Loss | None = None, *, temperature: float = 1.0
    ) -> Future:
        """Logprobs and loss of the data; nothing changes. `loss` is cross_entropy unless given."""
        return await self._ask(
            ForwardAsked(data=tuple(data), loss=loss or CrossEntropyLoss(), temperature=temperature)
        )

    @pending
    async def forward_backward(
        self,
        data: Sequence[Datum],
        loss: Loss,
        *,
        temperature: float = 1.0,
        kl: KlPenalty | None = None,
        entropy_coefficient: float = 0.0,
        tis_cap: float | None = None,
    ) -> Future:
        """Add the gradient of the loss, summed over tokens, to that of the window since the last `optim_step`.

        `temperature`: with which the tokens were sampled. Raises `ConfigurationError`, which says what is wrong
        with which datum.
        """
        return await self._ask(
            ForwardBackwardAsked(
                data=tuple(data),
                loss=loss,
                temperature=temperature,
                kl=kl,
                entropy_coefficient=entropy_coefficient,
                tis_cap=tis_cap,
            )
        )

    @pending
    async def forward_backward_custom(self, data: Sequence[Datum], loss: CustomLoss) -> Future:
        """The gradient of a loss of your own, which is computed here from the logprobs of a `forward`.

        Waits for these. A second pass takes cross_entropy with the negated derivatives as weights, so the gradient is that
        of your loss to first order; its `loss:sum` is not your loss.
        """
        plain = [Datum(ids=datum.ids, targets=datum.targets) for datum in data]
        done = await (await self._ask(ForwardAsked(data=tuple(plain), loss=CrossEntropyLoss())))
        logprobs = [np.array(one) for one in done.logprobs or ()]
        _, derivatives = loss(data, logprobs)
        weighted = [
            datum.model_copy(update={"weights": -np.asarray(by_token, np.float32)})
            for datum, by_token in zip(plain, derivatives, strict=True)
        ]
        return await self._ask(ForwardBackwardAsked(data=tuple(weighted), loss=CrossEntropyLoss()))

    @pending
    async def optim_step(
        self,
        learning_rate: float,
        *,
        beta1: float = 0.9,
        beta2: float = 0.95,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        clip_norm: float = 0.0,
    ) -> Future:
        """One AdamW step with the gradient of the window. Fails, and begins a new window, where a
        `forward_backward` of the window has failed."""
        return await self._ask(
            OptimStep(
                learning_rate=learning_rate,
                beta1=beta1,
                beta2=beta2,
                eps=eps,
                weight_decay=weight_decay,
                clip_norm=clip_norm,
            )
        )

    @pending
    async def save_state(
        self,
        name: str,
        *,
        ttl_s: float | None = None,
        overwrite: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> Future:
        """Save weights and optimizer; `checkpoint` of the result is what `load_state` takes."""
        return await self._ask(
            SaveStateAsked(name=name, ttl_s=ttl_s, overwrite=overwrite, metadata=metadata)
        )

    @pending
    async def load_state(self, checkpoint: str, *, optimizer: bool = True) -> Future:
        """Go on from `NAME` of this model or `MODEL/NAME`; without `optimizer` with a fresh one."""
        return await self._ask(LoadStateAsked(checkpoint=checkpoint, optimizer=optimizer))

    @pending
    async def publish(
        self,
        name: str | None = None,
        *,
        ttl_s: float | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Future:
        """Let samplers have the weights as they are; `policy.model` of the result is their name for good. With
        `name` they stay until they are deleted; without, the newest 32 stay."""
        return await self._ask(PublishAsked(name=name, ttl_s=ttl_s, metadata=metadata))

    @pending
    async def sample(
        self,
        prompt_ids: Sequence[int],
        sampling: SamplingParams | None = None,
        *,
        policy: FutureDone | str | None = None,
    ) -> GenerateResponse:
        """Answers to a prompt, as tokens with their logprobs.

        Of a published `policy` exactly (what `publish` came to, or its name), or of the newest, which may change while an
        answer is sampled.
        """
        params = (sampling or SamplingParams()).model_copy(update={"logprobs": 1})
        request = GenerateRequest(
            model=self._policy_name(policy), token_ids=tuple(prompt_ids), sampling_params=params
        )
        return await self._transport.post("/inference/v1/generate", GenerateResponse, request)

    @pending
    async def kept(self) -> SavedWeights:
        """Checkpoints and snapshots."""
        return await self._transport.get(f"{self._path()}/kept", SavedWeights)

    @pending
    async def delete_checkpoint(self, name: str) -> SavedWeights:
        """What is left. Raises `NotFound`."""
        return await self._delete(SavedName(kind="checkpoint", name=name))

    @pending
    async def delete_snapshot(self, name: str) -> SavedWeights:
        """What is left. Raises `NotFound`."""
        return await self._delete(SavedName(kind="snapshot", name=name))

    @pending
    async def set_ttl(
        self, name: str, ttl_s: float | None, *, is_snapshot: bool = False
    ) -> SavedWeights:
        """Delete a checkpoint or a snapshot after so long from now; None keeps it. Raises `NotFound`."""
        asked = SetTtl(kind="snapshot" if is_snapshot else "checkpoint", name=name, ttl_s=ttl_s)
        return await self._transport.post(f"{self._path()}/kept/ttl", SavedWeights, asked)

    @pending
    async def close(self) -> TrainableView:
        """Take no more ops, save, and give the trainer back. Checkpoints and named snapshots stay."""
        self._view = await self._transport.post(f"{self._path()}/close", TrainableView)
        return self._view

    async def keep_alive(self) -> None:
        """Tell the gateway that the client is there, until the model is closed. The client does so by itself."""
        idle_s = self._view.idle_s
        if idle_s is None:
            return
        while True:
            await asyncio.sleep(idle_s / BEATS_IN_IDLE_TIME)
            try:
                await self._transport.post(f"{self._path()}/heard", TrainableView)
            except (GatewayUnreachable, GatewayBusy):
                continue
            except GatewayError:
                return

    async def _ask(self, op: Asking) -> Future:
        sequence = self._next_sequence
        self._next_sequence += 1
        try:
            await self._fill_gaps()
            view = await self._post(op, sequence)
        except BaseException as error:
            self._unfilled.add(sequence)
            if isinstance(error, Exception) and sequence + 1 < self._next_sequence:
                await self._try_to_fill_gaps()  # others wait behind it already
            raise
        return Future(self._transport, view.future, op.kind)

    async def _try_to_fill_gaps(self) -> None:
        with suppress(GatewayError, GatewayUnreachable):
            await self._fill_gaps()

    async def _fill_gaps(self) -> None:
        """A number leaves the gaps when the gateway has something for it, and not before."""
        for sequence in sorted(self._unfilled):
            skip = SkipAsked(reason="its client never sent it", spoils_gradient=True)
            try:
                await self._post(skip, sequence)
            except GatewayError as error:
                if error.status != 409:
                    raise
            self._unfilled.discard(sequence)

    async def _post(self, op: Asking, sequence: int) -> FutureView:
        """Until the gateway has it: the same key gives the same future, however often it is sent."""
        body = AskOp(op=op, key=secrets.token_hex(12), sequence=sequence)
        ask = partial(self._transport.post, f"{self._path()}/ops", FutureView, body)
        return await with_retries(ask)

    async def _delete(self, asked: SavedName) -> SavedWeights:
        return await self._transport.post(f"{self._path()}/kept/delete", SavedWeights, asked)

    def _policy_name(self, policy: FutureDone | str | None) -> str:
        if policy is None:
            return self.id
        if isinstance(policy, str):
            return policy
        if policy.policy is None:
            raise ValueError(f"{policy.kind} published nothing; give what `publish` came to")
        return policy.policy.model

    def _path(self) -> str:
        return f"/v1/trainable/{quote(self.id, safe='')}"
