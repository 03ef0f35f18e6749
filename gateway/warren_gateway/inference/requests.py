"""Requests in the manner of OpenAI -> questions to the samplers.

Tools are told and called as in training: in the system message and in the words (`tools_in_chat`).
"""

from warren_gateway.inference.sampler_requests import Question
from warren_schemas.chat.tool_formats import Tool
from warren_schemas.chat.tools_in_chat import Called, as_words, with_tools
from warren_schemas.config import Sampling
from warren_schemas.episode import PolicyRef
from warren_schemas.openai import (
    AskedMessage,
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    SamplingParams,
    SamplingRequest,
    ToolSpec,
)
from warren_schemas.transcript import NO_TOKENS, ChatMessage, Transcript

_NO_LIMIT = 1 << 30
"""More tokens than any context; the engine stops where the context ends."""


def chat_question(request: ChatRequest, policy: PolicyRef) -> Question:
    limit = request.max_completion_tokens or request.max_tokens or _NO_LIMIT
    sampling = _sampling(request, limit).model_copy(update={"thinking": request.thinking})
    specs = [tool.function for tool in tools_of(request)]
    tools = [Tool(spec.name, spec.description, dict(spec.parameters)) for spec in specs]
    messages = with_tools([_message(message) for message in request.messages], tools)
    return Question(policy, Transcript(messages=tuple(messages)), sampling, request.n)


def text_question(request: CompletionRequest, policy: PolicyRef) -> Question:
    sampling = _sampling(request, request.max_tokens)
    return Question(policy, _plain(request.prompt), sampling, request.n, is_plain=True)


def tokens_question(request: GenerateRequest, policy: PolicyRef) -> Question:
    params = request.sampling_params
    sampling = _sampling(params, params.max_tokens)
    return Question(policy, _plain(request.token_ids), sampling, params.n, is_plain=True)


def tools_of(request: ChatRequest) -> tuple[ToolSpec, ...]:
    """The tools that the policy is told of."""
    return () if request.tool_choice == "none" else request.tools or ()


def _sampling(request: SamplingRequest | SamplingParams, max_tokens: int) -> Sampling:
    stop = (request.stop,) if isinstance(request.stop, str) else request.stop or ()
    return Sampling(
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        top_k=max(request.top_k, 0),
        min_p=request.min_p,
        repetition_penalty=request.repetition_penalty,
        max_tokens=max_tokens,
        stop=stop,
    )


def _message(asked: AskedMessage) -> ChatMessage:
    role = "system" if asked.role == "developer" else asked.role
    functions = [call.function for call in asked.tool_calls or ()]
    content = as_words(asked.text, [Called(each.name, each.arguments) for each in functions])
    return ChatMessage(role=role, content=content, images=asked.images)


def _plain(prompt: str | tuple[int, ...]) -> Transcript:
    if isinstance(prompt, str):
        return Transcript(messages=(ChatMessage(role="user", content=prompt),))
    return Transcript(tokens=NO_TOKENS.prompted(prompt))
