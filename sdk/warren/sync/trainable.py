"""The handle of a model that you train by a loop of your own, and futures, without `await`."""

from collections.abc import Sequence
from typing import Any

from warren.connection.loop_thread import LoopThread
from warren.trainable.future import Future as AsyncFuture
from warren.trainable.model import CustomLoss
from warren.trainable.model import TrainableModel as AsyncModel
from warren_schemas.config import KlPenalty, Loss
from warren_schemas.http import (
    Datum,
    FutureDone,
    FutureFailed,
    FuturePending,
    TrainableView,
)
from warren_schemas.http.trainable import SavedWeights
from warren_schemas.ids import ModelId
from warren_schemas.openai.generate import GenerateResponse, SamplingParams


class Future:
    """See `warren.Future`; `result()` stands for `await`."""

    def __init__(self, thread: LoopThread, future: AsyncFuture) -> None:
        self._thread = thread
        self._future = future

    def __repr__(self) -> str:
        return repr(self._future)

    @property
    def id(self) -> str:
        return self._future.id

    def result(self) -> FutureDone:
        """Wait for what came of the op. Raises `OpFailed`."""
        return self._thread.call(self._future.result())

    def peek(self) -> FutureDone | FutureFailed | FuturePending:
        """What came of it so far, and what it waits for."""
        return self._thread.call(self._future.peek())


class TrainableModel:
    """See `warren.TrainableModel`."""

    def __init__(self, thread: LoopThread, model: AsyncModel) -> None:
        self._thread = thread
        self._model = model

    def __repr__(self) -> str:
        return repr(self._model)

    @property
    def view(self) -> TrainableView:
        """The model as it was when last looked at."""
        return self._model.view

    @property
    def id(self) -> ModelId:
        return self._model.id

    def refresh(self) -> TrainableView:
        """Look again; the answer is `view` from then on."""
        return self._thread.call(self._model.refresh())

    def forward(
        self, data: Sequence[Datum], loss: Loss | None = None, *, temperature: float = 1.0
    ) -> Future:
        """Logprobs and loss of the data; nothing changes."""
        asked = self._model.forward(data, loss, temperature=temperature)
        return Future(self._thread, self._thread.call(asked))

    def forward_backward(
        self,
        data: Sequence[Datum],
        loss: Loss,
        *,
        temperature: float = 1.0,
        kl: KlPenalty | None = None,
        entropy_coefficient: float = 0.0,
        tis_cap: float | None = None,
    ) -> Future:
        """Add the gradient of the loss to that of the window."""
        asked = self._model.forward_backward(
            data,
            loss,
            temperature=temperature,
            kl=kl,
            entropy_coefficient=entropy_coefficient,
            tis_cap=tis_cap,
        )
        return Future(self._thread, self._thread.call(asked))

    def forward_backward_custom(self, data: Sequence[Datum], loss: CustomLoss) -> Future:
        """The gradient of a loss of your own; it is called in the client's own thread."""
        asked = self._model.forward_backward_custom(data, loss)
        return Future(self._thread, self._thread.call(asked))

    def optim_step(
        self,
        learning_rate: float,
        *,
        beta1: float = 0.9,
        beta2: float = 0.95,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        clip_norm: float = 0.0,
    ) -> Future:
        """One AdamW step with the gradient of the window."""
        asked = self._model.optim_step(
            learning_rate,
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            weight_decay=weight_decay,
            clip_norm=clip_norm,
        )
        return Future(self._thread, self._thread.call(asked))

    def save_state(
        self,
        name: str,
        *,
        ttl_s: float | None = None,
        overwrite: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> Future:
        """Save weights and optimizer."""
        asked = self._model.save_state(name, ttl_s=ttl_s, overwrite=overwrite, metadata=metadata)
        return Future(self._thread, self._thread.call(asked))

    def load_state(self, checkpoint: str, *, optimizer: bool = True) -> Future:
        """Go on from `NAME` of this model or `MODEL/NAME`."""
        asked = self._model.load_state(checkpoint, optimizer=optimizer)
        return Future(self._thread, self._thread.call(asked))

    def publish(
        self,
        name: str | None = None,
        *,
        ttl_s: float | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Future:
        """Let samplers have the weights as they are."""
        asked = self._model.publish(name, ttl_s=ttl_s, metadata=metadata)
        return Future(self._thread, self._thread.call(asked))

    def sample(
        self,
        prompt_ids: Sequence[int],
        sampling: SamplingParams | None = None,
        *,
        policy: FutureDone | str | None = None,
    ) -> GenerateResponse:
        """Answers to a prompt, as tokens with their logprobs."""
        return self._thread.call(self._model.sample(prompt_ids, sampling, policy=policy))

    def kept(self) -> SavedWeights:
        """Checkpoints and snapshots."""
        return self._thread.call(self._model.kept())

    def delete_checkpoint(self, name: str) -> SavedWeights:
        """What is left."""
        return self._thread.call(self._model.delete_checkpoint(name))

    def delete_snapshot(self, name: str) -> SavedWeights:
        """What is left."""
        return self._thread.call(self._model.delete_snapshot(name))

    def set_ttl(self, name: str, ttl_s: float | None, *, is_snapshot: bool = False) -> SavedWeights:
        """Delete a checkpoint or a snapshot after so long from now; None keeps it."""
        return self._thread.call(self._model.set_ttl(name, ttl_s, is_snapshot=is_snapshot))

    def close(self) -> TrainableView:
        """Take no more ops, save, and give the trainer back."""
        return self._thread.call(self._model.close())
