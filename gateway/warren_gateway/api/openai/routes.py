"""Models, chats and plain texts in the manner of OpenAI's API, and tokens in that of vLLM.

A caller that leaves ends its request (`Route.ends_with_client`), and the samplers are told to stop.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web

from warren_gateway.api.openai.refusals import (
    no_sampler,
    no_such_model,
    stopping,
    too_late,
    unwrapped,
)
from warren_gateway.api.openai.streaming import AnswerStream
from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.inference.answers import ChatTelling, Telling, TextTelling
from warren_gateway.inference.requests import chat_question, text_question, tokens_question
from warren_gateway.inference.sampler_requests import (
    Answers,
    AnswersLost,
    Question,
)
from warren_gateway.inference.served import NoSuchModel
from warren_gateway.inference.token_answers import told_tokens
from warren_schemas.episode import PolicyRef, Step
from warren_schemas.openai import (
    ChatChunk,
    ChatCompletion,
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    GenerateResponse,
    ServedModel,
    ServedModels,
    TextCompletion,
)
from warren_schemas.users.access import KeyScope

Completing = Call[ChatRequest] | Call[CompletionRequest]
Asking = Completing | Call[GenerateRequest]


async def list_models(call: Call[Nothing]) -> web.StreamResponse:
    return reply(ServedModels(data=tuple(await call.services.served.listed(call.viewer))))


async def show_model(call: Call[Nothing]) -> web.StreamResponse:
    name = call.request.match_info["model"]
    try:
        await call.services.served.policy(call.viewer, name)
    except NoSuchModel as error:
        raise no_such_model(name) from error
    return reply(ServedModel(id=name, owned_by=call.owner))


async def complete_chat(call: Call[ChatRequest]) -> web.StreamResponse:
    question = chat_question(call.takes, await _policy(call))
    return await _complete(call, question, ChatTelling(call.takes))


async def complete_text(call: Call[CompletionRequest]) -> web.StreamResponse:
    question = text_question(call.takes, await _policy(call))
    return await _complete(call, question, TextTelling(call.takes))


async def generate_tokens(call: Call[GenerateRequest]) -> web.StreamResponse:
    question = tokens_question(call.takes, await _policy(call))
    async with _asked(call, question) as answers:
        return reply(told_tokens(call.takes, await _all(call, answers)))


async def _policy(call: Asking) -> PolicyRef:
    """Whose weights; somebody must be there to sample from them."""
    name, served = call.takes.model, call.services.served
    try:
        policy = await served.policy(call.viewer, name)
    except NoSuchModel as error:
        raise no_such_model(name) from error
    if policy.base_model not in served.offered:
        raise no_sampler(policy.base_model, served.offered, served.advice)
    return policy


async def _complete(call: Completing, question: Question, telling: Telling) -> web.StreamResponse:
    async with _asked(call, question) as answers:
        if call.takes.stream:
            return await _streamed(call, answers, telling)
        return reply(telling.whole(await _all(call, answers)))


@asynccontextmanager
async def _asked(call: Asking, question: Question) -> AsyncGenerator[Answers]:
    """`SamplerRequests.ask` within the owner's budget. Raises `OverBudget`, and refusals for its errors."""
    try:
        with call.services.budgets.answers.hold(call.owner, question.n):
            async with call.services.sampler_requests.ask(question) as answers:
                yield answers
    except AnswersLost as error:
        raise stopping() from error


async def _all(call: Asking, answers: Answers) -> list[Step]:
    """Raises `Refusal` for the first that is a failure."""
    try:
        async with asyncio.timeout(call.services.sampler_requests.limits.answer_s):
            return [unwrapped(await answer) for answer in answers]
    except TimeoutError as error:
        raise too_late() from error


async def _streamed(call: Completing, answers: Answers, telling: Telling) -> web.StreamResponse:
    options = call.takes.stream_options
    has_usage = options is not None and options.include_usage
    stream = AnswerStream(call.request, telling, call.services.timings.answers, has_usage=has_usage)
    return await stream.run(answers, answer_s=call.services.sampler_requests.limits.answer_s)


ROUTES = (
    Route(
        "GET",
        "/v1/models",
        list_models,
        takes=Nothing,
        answers=ServedModels,
        summary="List the models that you can query: base models online, policies of your runs",
        scope=KeyScope.INFER,
        errors=(400,),
    ),
    Route(
        "GET",
        "/v1/models/{model}",
        show_model,
        takes=Nothing,
        answers=ServedModel,
        summary="Show a model",
        scope=KeyScope.INFER,
        errors=(400, 404),
    ),
    Route(
        "POST",
        "/v1/chat/completions",
        complete_chat,
        takes=ChatRequest,
        answers=ChatCompletion,
        streams=ChatChunk,
        summary="Complete a chat with a base model or a trained policy (OpenAI-compatible)",
        scope=KeyScope.INFER,
        errors=(400, 404, 413, 429, 502, 504),
        ends_with_client=True,
    ),
    Route(
        "POST",
        "/v1/completions",
        complete_text,
        takes=CompletionRequest,
        answers=TextCompletion,
        streams=TextCompletion,
        summary="Complete a text or a list of tokens (OpenAI-compatible)",
        scope=KeyScope.INFER,
        errors=(400, 404, 413, 429, 502, 504),
        ends_with_client=True,
    ),
    Route(
        "POST",
        "/inference/v1/generate",
        generate_tokens,
        takes=GenerateRequest,
        answers=GenerateResponse,
        summary="Generate tokens from tokens (vLLM-compatible)",
        scope=KeyScope.INFER,
        errors=(400, 404, 413, 429, 502, 504),
        ends_with_client=True,
    ),
)
