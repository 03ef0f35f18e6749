"""Prompts: a transcript's tokens, its new messages rendered behind them, its images in their places."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from warren_gpu_worker.base_models.vision_inputs import Picture, Placed
from warren_gpu_worker.sampler.child.image_cache import Seen, expanded, filled, placed
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.engines.port import NO_OPTIONS, Request
from warren_gpu_worker.sampler.messages import TurnRequest


class Prompts:
    """`image_token` stands for images in prompts; None where the model reads text alone."""

    def __init__(self, renderer: Renderer, image_token: int | None) -> None:
        self._renderer = renderer
        self._image_token = image_token

    def request_for(self, turn: TurnRequest, seen: Seen) -> Request:
        """What the engine is to answer. Raises `TemplateError` and `ValueError`."""
        options = turn.options or NO_OPTIONS
        if options.prompt is None:
            rendered_T = self._expanded(self._render(turn), seen.new(turn.messages))
            ids_T = np.concatenate([turn.ids_T, rendered_T])
            pictures = self._placed(turn, ids_T, seen)
        else:
            ids_T, pictures = filled(options.prompt, self._image_token, seen.pictures)
        rest = (turn.sampling, turn.priority, pictures, turn.mask_capacity)
        return Request(turn.id, turn.policy.key, ids_T, *rest, options)

    def _render(self, turn: TurnRequest) -> NDArray[np.int32]:
        thinking = turn.sampling.thinking
        if turn.is_plain:
            return self._plain(turn)
        if turn.ids_T.size == 0:
            return self._renderer.open(turn.messages, thinking=thinking)
        return self._renderer.extend(int(turn.ids_T[-1]), turn.messages, thinking=thinking)

    def _plain(self, turn: TurnRequest) -> NDArray[np.int32]:
        if turn.ids_T.size:
            return np.zeros(0, np.int32)
        return self._renderer.plain("".join(message[1] for message in turn.messages))

    def _expanded(self, ids_T: NDArray[np.int32], pictures: Sequence[Picture]) -> NDArray[np.int32]:
        return ids_T if self._image_token is None else expanded(ids_T, self._image_token, pictures)

    def _placed(
        self, turn: TurnRequest, ids_T: NDArray[np.int32], seen: Seen
    ) -> tuple[Placed, ...]:
        if self._image_token is None or turn.images is None:
            return ()
        is_sampled_T = np.zeros(ids_T.size, np.bool_)
        is_sampled_T[: turn.ids_T.size] = np.frombuffer(turn.images.mask, np.bool_)
        return placed(ids_T, is_sampled_T, self._image_token, seen.pictures)
