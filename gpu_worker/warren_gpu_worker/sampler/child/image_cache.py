"""The images of a turn: seen once, kept for the turns that show them again, put in their places.

A transcript's tokens hold one image token for each patch group of each image, in the order of the
images. The policy may sample that token as well; so places are looked for among the tokens that
were not sampled.

Legend: `_T` tokens of one sequence.
"""

import base64
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from warren_gpu_worker.base_models.vision_inputs import (
    ImageUnusable,
    NoVision,
    Picture,
    Placed,
    VisionInputs,
)
from warren_gpu_worker.sampler.child.renderer import Renderer, TemplateNotExtendable
from warren_gpu_worker.sampler.engines.port import MAX_IMAGES, Refusal
from warren_gpu_worker.sampler.messages import Message, TurnRequest
from warren_schemas.episode import FailureKind
from warren_schemas.token_options import PromptWithImages

_KEPT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Seen:
    """The images of a turn's transcript, in order."""

    pictures: tuple[Picture, ...]

    def new(self, messages: Sequence[Message]) -> tuple[Picture, ...]:
        """Those of its messages that are not among the tokens yet: the last ones."""
        n_new = sum(message[2] for message in messages if len(message) == 3)
        return self.pictures[len(self.pictures) - n_new :]


NOTHING_SEEN = Seen(())


class ImageCache:
    """What a model sees; safe to use from several threads. `vision` may be why it has none."""

    def __init__(self, vision: VisionInputs | NoVision) -> None:
        self._vision = vision
        self._kept: OrderedDict[str, Picture] = OrderedDict()  # the least recently used comes first
        self._n_bytes = 0
        self._lock = Lock()

    def see(self, turn: TurnRequest) -> Seen | Refusal:
        """Look at the turn's images, or say why that can't be done."""
        vision, files = self._vision, turn.images.files if turn.images else ()
        if isinstance(vision, NoVision):
            reason = f"the chat has images, and the base model can't be shown any: {vision}"
            return Refusal(turn.id, FailureKind.IMAGES_UNSUPPORTED, reason)
        if len(files) > MAX_IMAGES:
            reason = f"the chat has {len(files)} images; {MAX_IMAGES} can be shown"
            return Refusal(turn.id, FailureKind.INVALID_REQUEST, reason)
        try:
            return Seen(tuple(self._see(vision, n, file) for n, file in enumerate(files, 1)))
        except ImageUnusable as error:
            return Refusal(turn.id, FailureKind.INVALID_REQUEST, str(error))

    def _see(self, vision: VisionInputs, number: int, file: str) -> Picture:
        with self._lock:
            if picture := self._kept.get(file):
                self._kept.move_to_end(file)
                return picture
        try:
            picture = vision.see(base64.b64decode(file))
        except ImageUnusable as error:
            raise ImageUnusable(f"image {number} of the chat can't be shown: {error}") from error
        self._keep(file, picture)
        return picture

    def _keep(self, file: str, picture: Picture) -> None:
        with self._lock:
            if file not in self._kept:
                self._kept[file] = picture
                self._n_bytes += _size(file, picture)
            while self._n_bytes > _KEPT_BYTES:
                self._n_bytes -= _size(*self._kept.popitem(last=False))


def look(folder: str, renderer: Renderer) -> VisionInputs | NoVision:
    """The vision inputs of the model in this folder, or why it has none."""
    try:
        vision = VisionInputs(folder)
        renderer.check_images(vision.image_token)
    except NoVision as error:
        return error
    except TemplateNotExtendable as error:
        return NoVision(str(error))
    return vision


def _size(file: str, picture: Picture) -> int:
    return len(file) + picture.pixels_PD.nbytes


def expanded(
    ids_T: NDArray[np.int32], image_token: int, pictures: Sequence[Picture]
) -> NDArray[np.int32]:
    """Rendered tokens with as many image tokens for each image as it has.

    Raises `ValueError` when the text has another number of image tokens than there are images.
    """
    is_image_T = ids_T == image_token
    if int(is_image_T.sum()) != len(pictures):
        raise ValueError("its text holds the token that stands for an image")
    repeats_T = np.ones(ids_T.size, np.int64)
    repeats_T[is_image_T] = [picture.n_tokens for picture in pictures]
    return np.repeat(ids_T, repeats_T)


def filled(
    prompt: PromptWithImages, image_token: int | None, pictures: Sequence[Picture]
) -> tuple[NDArray[np.int32], tuple[Placed, ...]]:
    """A prompt of exact tokens with those of its images, and where each of these begins. Raises `ValueError`."""
    if image_token is None or len(pictures) != len(prompt.images):
        raise ValueError(f"it has {len(pictures)} images for {len(prompt.images)} places")
    parts, places, n_own, n_images = list[NDArray[np.int32]](), list[Placed](), 0, 0
    for number, (place, picture) in enumerate(zip(prompt.images, pictures, strict=True), 1):
        if place.n_expected not in (None, picture.n_tokens):
            raise ValueError(
                f"image {number} has {picture.n_tokens} tokens, and {place.n_expected} are expected"
            )
        image_T = np.full(picture.n_tokens, image_token, np.int32)
        parts += [prompt.ids_T[n_own : place.n_before], image_T]
        places.append(Placed(place.n_before + n_images, picture))
        n_own, n_images = place.n_before, n_images + picture.n_tokens
    return np.concatenate([*parts, prompt.ids_T[n_own:]]), tuple(places)


def placed(
    ids_T: NDArray[np.int32],
    is_sampled_T: NDArray[np.bool_],
    image_token: int,
    pictures: Sequence[Picture],
) -> tuple[Placed, ...]:
    """The images of a prompt in their places. Raises `ValueError` when the tokens don't fit them."""
    places = np.flatnonzero((ids_T == image_token) & ~is_sampled_T)
    n_tokens = [picture.n_tokens for picture in pictures]
    if places.size != sum(n_tokens):
        raise ValueError("its tokens have another number of image tokens than its images")
    starts = places[np.cumsum([0, *n_tokens[:-1]])] if pictures else ()
    return tuple(Placed(int(start), p) for start, p in zip(starts, pictures, strict=True))
