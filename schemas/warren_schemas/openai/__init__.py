"""Bodies of the OpenAI-compatible routes: the part of that API that a policy can serve.

Beside the usual answer a caller may ask for what training needs: the exact token ids, their
logprobs, and the version of the policy that made each. Tokens are named `token_id:<id>`, for the
gateway has no tokenizer. What a policy can't do is refused by name, not ignored.

requests   what is asked
answers    what is answered: whole, in chunks, or with an error
generate   tokens in, tokens out, in the manner of vLLM
"""

from warren_schemas.openai.answers import (
    CalledInChunk,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatLogprobs,
    ChatMessageAnswer,
    Delta,
    FinishedBy,
    OpenAIError,
    OpenAIProblem,
    ServedModel,
    ServedModels,
    TextChoice,
    TextCompletion,
    TextLogprobs,
    TokenLogprob,
    Usage,
)
from warren_schemas.openai.generate import (
    GenerateChoice,
    GenerateRequest,
    GenerateResponse,
    SamplingParams,
)
from warren_schemas.openai.requests import (
    AskedMessage,
    ChatRequest,
    CompletionRequest,
    FunctionCall,
    FunctionSpec,
    SamplingRequest,
    StreamOptions,
    TextPart,
    ToolCall,
    ToolSpec,
)

__all__ = [
    "AskedMessage",
    "CalledInChunk",
    "ChatChoice",
    "ChatChunk",
    "ChatChunkChoice",
    "ChatCompletion",
    "ChatLogprobs",
    "ChatMessageAnswer",
    "ChatRequest",
    "CompletionRequest",
    "Delta",
    "FinishedBy",
    "FunctionCall",
    "FunctionSpec",
    "GenerateChoice",
    "GenerateRequest",
    "GenerateResponse",
    "OpenAIError",
    "OpenAIProblem",
    "SamplingParams",
    "SamplingRequest",
    "ServedModel",
    "ServedModels",
    "StreamOptions",
    "TextChoice",
    "TextCompletion",
    "TextLogprobs",
    "TextPart",
    "TokenLogprob",
    "ToolCall",
    "ToolSpec",
    "Usage",
]
