"""Tokens in and out, in the manner of vLLM's `/inference/v1/generate`."""

import time
from array import array
from collections.abc import Iterator

import orjson
from pydantic import JsonValue

from warren.agents.conversation import Answer, Question
from warren.agents.dialects.chat import SETTINGS
from warren.agents.dialects.dialect import (
    Body,
    Event,
    Refusal,
    given,
    named_logprobs,
    openai_error,
    plain,
    usage,
)
from warren.agents.live import MODEL, LiveAgent
from warren_schemas.base import Frozen
from warren_schemas.openai import GenerateChoice, GenerateResponse, StreamOptions
from warren_schemas.openai.requests import LogprobsOfText, TokenIds, Words

MAX_PROMPT_TOKENS = 500_000
"""No episode has more: each takes 13 bytes of a message. They are counted before anything looks at them one by one."""
IGNORED = frozenset({
    "cache_salt", "priority", "token_offsets", "reasoning_ended", "reasoning_parser_kwargs",
})  # fmt: skip
"""For a server that schedules and parses."""
_ENDINGS = frozenset({
    "stop_token_ids", "ignore_eos", "min_tokens", "bad_words", "allowed_token_ids", "detokenize",
    "skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output",
    "output_kind",
})  # fmt: skip
"""Of `sampling_params`, beside what a chat has: the run's to say, too, or about text, of which there is none."""
_IMAGES = ("features", "content_parts")


class _Params(Frozen):
    logprobs: LogprobsOfText | None = None


class TokensRequest(Frozen):
    token_ids: TokenIds
    model: str = MODEL
    sampling_params: _Params = _Params()
    request_id: Words | None = None
    return_token_ids: bool = False
    output_mode: str = "tokens"
    stream: bool = False
    stream_options: StreamOptions | None = None


class TokensDialect:
    paths = ("/inference/v1/generate", "/v1/inference/v1/generate")

    def read(self, body: Body, live: LiveAgent) -> "TokensTelling":
        ids = _prompt_of(body)
        asked = given(body, IGNORED | {"token_ids"})
        if any(asked.pop(key, None) for key in _IMAGES):
            raise Refusal(400, "images are shown in chats: prompts in tokens have none")
        if asked.get("output_mode", "tokens") != "tokens":
            raise Refusal(400, "output_mode: answers are told in tokens")
        if isinstance(params := asked.get("sampling_params"), dict):
            asked["sampling_params"] = _tamed(params)
        told = {} if ids is None else {"token_ids": ids}
        return TokensTelling(TokensRequest.model_validate(asked | told))

    def error(self, status: int, code: str, message: str) -> Body:
        return openai_error(status, code, message)


def _prompt_of(body: Body) -> JsonValue:
    ids = body.get("token_ids")
    if isinstance(ids, list) and len(ids) > MAX_PROMPT_TOKENS:
        raise Refusal(
            413, f"token_ids: there are {len(ids)}; a prompt has {MAX_PROMPT_TOKENS} at most"
        )
    return ids


def _tamed(params: dict[str, JsonValue]) -> Body:
    asked = given(params, SETTINGS | _ENDINGS)
    if asked.pop("n", 1) != 1:
        raise Refusal(400, "n: a policy that acts gives one answer; ask once for each")
    return asked


class TokensTelling:
    def __init__(self, request: TokensRequest) -> None:
        self._request = request
        self.is_streamed = request.stream
        self.question = Question((), ids=array("i", request.token_ids))

    def whole(self, answer: Answer) -> Body:
        told = GenerateResponse(
            request_id=self._id(answer),
            model=self._request.model,
            created=int(time.time()),
            choices=(self._choice(answer),),
            usage=usage(answer),
        )
        return {"id": _own_id(answer), **plain(told), **self._prompt(answer)}

    def events(self, answer: Answer) -> Iterator[Event]:
        bare: Body = {
            "id": _own_id(answer),
            "request_id": self._id(answer),
            "choices": [],
        }
        yield _event({**bare, "choices": [plain(self._choice(answer))], **self._prompt(answer)})
        options = self._request.stream_options
        if options is not None and options.include_usage:
            yield _event({**bare, "usage": plain(usage(answer))})
        yield None, "[DONE]"

    def _id(self, answer: Answer) -> str:
        return self._request.request_id or _own_id(answer)

    def _prompt(self, answer: Answer) -> Body:
        told = self._request.return_token_ids
        return {"prompt_token_ids": list(answer.sampled.prompt_ids)} if told else {}

    def _choice(self, answer: Answer) -> GenerateChoice:
        sampled, params = answer.sampled, self._request.sampling_params
        return GenerateChoice(
            index=0,
            token_ids=tuple(sampled.ids),
            versions=tuple(sampled.versions),
            finish_reason="length" if sampled.is_cut else "stop",
            logprobs=None if params.logprobs is None else named_logprobs(answer),
        )


def _own_id(answer: Answer) -> str:
    """What the answer is rewarded by, whatever the client calls its request."""
    return f"gen-{answer.turn}"


def _event(body: Body) -> Event:
    return None, orjson.dumps(body).decode()
