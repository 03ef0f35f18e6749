"""The classes of `messages.proto`; `messages.pyi` says what they look like."""

from importlib.resources import files

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _pool() -> descriptor_pool.DescriptorPool:
    compiled = files("warren_gateway.tinker.wire").joinpath("messages.binpb").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
        pool.Add(file)
    return pool


_POOL = _pool()


def _message(name: str) -> type:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"warren.tinker.{name}"))


LossConfigValue = _message("LossConfigValue")
SparseCsr = _message("SparseCsr")
Tensor = _message("Tensor")
EncodedTextChunk = _message("EncodedTextChunk")
Chunk = _message("Chunk")
Datum = _message("Datum")
ForwardBackwardRequest = _message("ForwardBackwardRequest")
BatchedTensor = _message("BatchedTensor")
ArrayRecord = _message("ArrayRecord")
ForwardBackwardOutput = _message("ForwardBackwardOutput")
SampledSequence = _message("SampledSequence")
TopkLogprobs = _message("TopkLogprobs")
PromptAltTokens = _message("PromptAltTokens")
SampleResponse = _message("SampleResponse")
FLOAT32, INT64, INT32 = 1, 2, 3
STOP, LENGTH = 0, 1
