# What Warren uses of the messages, so that types are checked.

from collections.abc import Iterator, Mapping, MutableSequence
from typing import Generic, Self, TypeVar

from google.protobuf.message import Message

_T = TypeVar("_T")

FLOAT32: int
INT64: int
INT32: int
STOP: int
LENGTH: int

class Repeated(Generic[_T]):
    def add(self) -> _T: ...
    def __iter__(self) -> Iterator[_T]: ...
    def __getitem__(self, index: int) -> _T: ...
    def __len__(self) -> int: ...

class MessageMap(Mapping[str, _T]):
    def clear(self) -> None: ...

class LossConfigValue(Message):
    number: float
    text: str
    def WhichOneof(self, oneof_group: str) -> str | None: ...

class SparseCsr(Message):
    values: bytes
    crow_indices: bytes
    col_indices: bytes

class Tensor(Message):
    dense: bytes
    sparse_csr: SparseCsr
    dtype: int
    shape: MutableSequence[int]
    def WhichOneof(self, oneof_group: str) -> str | None: ...

class EncodedTextChunk(Message):
    tokens: bytes

class ImageChunk(Message):
    data: bytes

class Chunk(Message):
    encoded_text: EncodedTextChunk
    image: ImageChunk
    def WhichOneof(self, oneof_group: str) -> str | None: ...

class Datum(Message):
    model_input: Repeated[Chunk]
    loss_fn_inputs: MessageMap[Tensor]

class ForwardBackwardRequest(Message):
    model_id: str
    seq_id: int
    data: Repeated[Datum]
    loss_fn: str
    loss_fn_config: Mapping[str, float]
    forward_only: bool
    loss_fn_config_v2: MessageMap[LossConfigValue]
    @classmethod
    def FromString(cls, data: bytes) -> Self: ...

class BatchedTensor(Message):
    data: bytes
    offsets: bytes
    dtype: int
    trailing_shape: MutableSequence[int]

class ArrayRecord(Message):
    type_tag: str
    fields: MessageMap[BatchedTensor]
    num_datums: int

class ForwardBackwardOutput(Message):
    loss_fn_output_type: str
    loss_fn_outputs: Repeated[ArrayRecord]
    metrics: dict[str, float]
    @classmethod
    def FromString(cls, data: bytes) -> Self: ...

class TopkLogprobs(Message):
    token_ids: bytes
    logprobs: bytes
    k: int
    length: int

class SampledSequence(Message):
    stop_reason: int
    tokens: bytes
    logprobs: bytes
    topk_sampled_logprobs: TopkLogprobs

class PromptAltTokens(Message):
    tokens: Tensor
    logprobs: Tensor

class SampleResponse(Message):
    sequences: Repeated[SampledSequence]
    prompt_logprobs: bytes
    topk_prompt_logprobs: TopkLogprobs
    target_prompt_logprobs: Tensor
    prompt_alt_tokens: PromptAltTokens
    @classmethod
    def FromString(cls, data: bytes) -> Self: ...
