"""The chunks of a prompt -> the transcript that samplers go on from, and where its images stand.

Which token stands for an image, and how often, only a sampler knows: so a prompt with images has its tokens beside the
transcript, which has the images alone.
"""

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from warren_gateway.tinker.samples.answering import CantSample
from warren_schemas.images import Image
from warren_schemas.openai.requests import image_of
from warren_schemas.tinker.requests import Chunk
from warren_schemas.token_options import ImagePlace, PromptWithImages
from warren_schemas.transcript import NO_TOKENS, ChatMessage, Transcript

MOST_PROMPT_TOKENS = 256 * 1024
"""13 bytes of each travel in a message, and an answer is longer than its prompt."""
MOST_SHOWN_BYTES = 64 * 1024 * 1024
"""Of images, which travel once for each sample."""


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    transcript: Transcript
    with_images: PromptWithImages | None = None

    @property
    def n_tokens(self) -> int:
        """Of images, as many as its asker expects."""
        if self.with_images is None:
            return len(self.transcript.tokens)
        expected = (image.n_expected or 0 for image in self.with_images.images)
        return self.with_images.ids_T.size + sum(expected)


def prompt_of(chunks: Sequence[Chunk], n_samples: int) -> AskedPrompt:
    """Raises `CantSample`."""
    ids = _own_ids(chunks)
    if not ids and not any(chunk.type in _READERS for chunk in chunks):
        raise CantSample("the prompt has no tokens")
    if len(ids) > MOST_PROMPT_TOKENS:
        raise CantSample(f"the prompt has {len(ids)} tokens; {MOST_PROMPT_TOKENS} are the most")
    ids_T, images = np.array(ids, np.int32), _images(chunks)
    if not images:
        return AskedPrompt(plain(ids_T))
    _require_few(images, n_samples)
    shown = ChatMessage(role="user", content="", images=images)
    places = PromptWithImages(ids_T=ids_T, images=tuple(_places(chunks)))
    return AskedPrompt(Transcript(messages=(shown,)), places)


def plain(ids_T: NDArray[np.int32]) -> Transcript:
    """Of tokens that nobody sampled."""
    return Transcript(tokens=NO_TOKENS.prompted(ids_T.tolist()))


def _own_ids(chunks: Sequence[Chunk]) -> list[int]:
    """Raises `CantSample` where a chunk is neither tokens nor an image."""
    for chunk in chunks:
        if chunk.type != _TOKENS and chunk.type not in _READERS:
            raise CantSample(
                f"the prompt has a chunk of the type {chunk.type}; there are {_TOKENS}, {', '.join(_READERS)}"
            )
    return list(chain.from_iterable(_tokens(chunk) for chunk in chunks))


def _tokens(chunk: Chunk) -> tuple[int, ...]:
    return chunk.tokens if chunk.type == _TOKENS else ()


def _images(chunks: Sequence[Chunk]) -> tuple[Image, ...]:
    shown = [chunk for chunk in chunks if chunk.type in _READERS]
    return tuple(_image(number, chunk) for number, chunk in enumerate(shown, 1))


def _image(number: int, chunk: Chunk) -> Image:
    try:
        return _READERS[chunk.type](chunk)
    except ValueError as error:
        raise CantSample(f"image {number} of the prompt: {error}") from error


def _file(chunk: Chunk) -> Image:
    return Image.of(base64.b64decode(chunk.data, validate=True))


def _pointed_at(chunk: Chunk) -> Image:
    """Nothing is fetched for a client: it could point at what it may not see itself."""
    try:
        return image_of(chunk.location)
    except ValueError as error:
        raise ValueError(
            f"{error}; an {_POINTER} is followed no further, so send the file as an image chunk"
        ) from error


_TOKENS, _POINTER = "encoded_text", "image_asset_pointer"
_READERS: dict[str, Callable[[Chunk], Image]] = {"image": _file, _POINTER: _pointed_at}


def _places(chunks: Sequence[Chunk]) -> Iterable[ImagePlace]:
    n_before = 0
    for chunk in chunks:
        if chunk.type == _TOKENS:
            n_before += len(chunk.tokens)
        else:
            yield ImagePlace(n_before=n_before, n_expected=chunk.expected_tokens)


def _require_few(images: Sequence[Image], n_samples: int) -> None:
    n_bytes = n_samples * sum(len(image.base64) for image in images)
    if n_bytes > MOST_SHOWN_BYTES:
        raise CantSample(
            f"the images of {n_samples} samples have {n_bytes} bytes, and {MOST_SHOWN_BYTES} are the most;"
            " ask for fewer samples at a time, or show smaller images"
        )
