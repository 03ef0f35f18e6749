"""A plain client of the Tinker protocol, with our own messages and nobody's SDK."""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import aiohttp
import numpy as np

from warren_gateway.tinker.wire import messages

Json = dict[str, Any]


class Wire:
    """Over a client whose headers have a key."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http

    async def post(self, path: str, body: object = None, *, status: int = 200) -> Json:
        async with self.http.post(f"/api/v1/{path}", json=body or {}) as response:
            told: Json = await response.json()
            assert response.status == status, told
            return told

    async def get(self, path: str, *, status: int = 200) -> Json:
        async with self.http.get(f"/api/v1/{path}") as response:
            told: Json = await response.json()
            assert response.status == status, told
            return told

    async def session(self, *tags: str) -> str:
        body: Json = {
            "tags": tags,
            "sdk_version": "9.9",
            "type": "create_session",
            "unheard": {"of": 1},
        }
        return (await self.post("create_session", body))["session_id"]

    async def sampler(self, session: str, number: int = 0, **fields: object) -> str:
        asked = {"session_id": session, "sampling_session_seq_id": number, **fields}
        return (await self.post("create_sampling_session", asked))["sampling_session_id"]

    async def ask(self, sampler: str, number: int, prompt: list[int], **fields: Any) -> Json:
        """The future of a sample, whose prompt comes in two chunks, or in those that are given."""
        parts = [prompt[:1], prompt[1:]]
        tokens = [{"type": "encoded_text", "tokens": part} for part in parts]
        chunks = fields.pop("chunks", tokens)
        sampling = fields.pop("sampling", {"max_tokens": 6})
        status = fields.pop("status", 200)
        asked = {
            "sampling_session_id": sampler,
            "seq_id": number,
            "prompt": {"chunks": chunks},
            "sampling_params": sampling,
            "num_samples": 1,
            "type": "sample",
        }
        return await self.post("asample", asked | fields, status=status)

    async def outcome(self, future: str, *, status: int = 200) -> bytes | Json:
        """What a poll answers: a protobuf message, or JSON."""
        body = {"request_id": future, "allow_metadata_only": True}
        async with self.http.post("/api/v1/retrieve_future", json=body) as response:
            assert response.status == status, await response.text()
            if response.content_type == "application/x-protobuf":
                return await response.read()
            return await response.json()

    async def completed(
        self, sampler: str, cursor: int = 0, clone: int = 0, *, status: int = 200, **fields: Any
    ) -> Json:
        """Which of a sampler's samples are done."""
        target: Json = {
            "type": "sampling_session",
            "sampling_session_id": sampler,
            "cloned_sampler_id": clone,
        }
        asked = {"target": target, "prev_cursor": cursor, "timeout": None, **fields}
        return await self.post("retrieve_futures", asked, status=status)

    async def train(self, body: bytes, *, status: int = 200, encoding: str = "") -> Json:
        """The future of a `ForwardBackwardRequest`."""
        headers = {"Content-Type": "application/x-protobuf"}
        if encoding:
            headers["Content-Encoding"] = encoding
        async with self.http.post("/api/v1/forward_backward", data=body, headers=headers) as sent:
            assert sent.status == status, await sent.text()
            return await sent.json()

    async def sample(
        self, sampler: str, number: int, prompt: list[int], **fields: Any
    ) -> messages.SampleResponse:
        future = await self.ask(sampler, number, prompt, **fields)
        told = await self.outcome(future["request_id"])
        assert isinstance(told, bytes), told
        return messages.SampleResponse.FromString(told)


def loss_op(
    model: str,
    number: int,
    loss: str = "cross_entropy",
    *,
    ids: Sequence[int] = (2, 5, 7),
    weight: float = 0.0,
    forward_only: bool = False,
) -> bytes:
    """A `ForwardBackwardRequest` of one sequence, each of whose tokens but the first is a target."""
    made = messages.ForwardBackwardRequest()
    made.model_id, made.seq_id, made.loss_fn = model, number, loss
    made.forward_only = forward_only
    datum = made.data.add()
    datum.model_input.add().encoded_text.tokens = np.array(ids[:-1], "<i4").tobytes()
    target = datum.loss_fn_inputs["target_tokens"]
    target.dense, target.dtype = np.array(ids[1:], "<i8").tobytes(), messages.INT64
    weights = datum.loss_fn_inputs["weights"]
    weights.dense = np.full(len(ids) - 1, weight, "<f4").tobytes()
    weights.dtype = messages.FLOAT32
    return made.SerializeToString()


def ids_of(sequence: messages.SampledSequence) -> list[int]:
    return np.frombuffer(sequence.tokens, "<i4").tolist()


def zstd(body: bytes) -> bytes:
    """As the clients compress what they train on."""
    arrow: Any = import_module("pyarrow")
    return arrow.compress(body, codec="zstd", asbytes=True)


def are_offered(url: str, key: str) -> bool:
    """Whether a gateway there has a model that can be trained and sampled from."""
    request = urllib.request.Request(
        f"{url}/api/v1/get_server_capabilities", headers={"X-API-Key": key}
    )
    try:
        with urllib.request.urlopen(request) as response:
            models = json.load(response)["supported_models"]
    except urllib.error.URLError:
        return False
    return any(model["trainable"] and model["sampleable"] for model in models)
