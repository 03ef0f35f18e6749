"""Tools: methods of an environment that the policy calls by name.

    class Lookup(ToolEnv):
        def reset(self, task: None, ctx: Context) -> str:
            return "What is the capital of France? Look it up, then answer."

        @tool
        def look_up(self, country: str) -> str:
            "The capital of a country."
            return CAPITALS.get(country, "unknown")

        def answer(self, words: str) -> StepResult:
            return StepResult(reward=float("Paris" in words), done=True)

The policy finds the tools in the system prompt, in the format that the run or the class says
(`tool_format`). What it says is parsed here; a call that can't be understood is answered with a
sentence and counted (`parse_errors`), and what it sampled is never rewritten.
"""

import inspect
import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from warren.actions.awaitables import then
from warren.environment import ChatMessage, Env, PromptTokens, StepResult, TaskT
from warren_schemas.chat.tool_formats import Call, NotACall, Tool, parse_calls, tools_prompt
from warren_schemas.config import ToolFormat
from warren_schemas.text.explain import explain, nearest

__all__ = ["ToolEnv", "ToolFormat", "tool"]

MethodT = TypeVar("MethodT", bound=Callable[..., Any])

_MARK = "__warren_tool__"

Said = str | StepResult
"""What a tool returns: a text, or a whole result (a reward, the end)."""


def tool(method: MethodT) -> MethodT:
    """Offer this method to the policy: its name, docstring and type hints are the tool's schema."""
    setattr(method, _MARK, True)
    return method


class ToolEnv(Env[TaskT], Generic[TaskT]):
    """An environment in which the policy calls tools until it answers in plain words.

    Metrics of every episode: `tool_calls`, `tool_errors` (unknown tool, wrong arguments),
    `parse_errors`.
    """

    tool_format: ClassVar[ToolFormat] = ToolFormat.HERMES

    @abstractmethod
    def answer(self, words: str) -> StepResult | Awaitable[StepResult]:
        """What follows from words without a call: usually the reward, and the end."""

    def system_message(self) -> str | None:
        """The system prompt, with the tools behind it."""
        prompt = self.system_prompt()
        tools = tools_prompt(self.offered(), self._form)
        return tools if prompt is None else f"{prompt}\n\n{tools}"

    def step(self, action: str) -> StepResult | Awaitable[StepResult]:
        """Take the calls one after the other, or the answer if there is none."""
        calls = parse_calls(action, self._form)
        if isinstance(calls, NotACall):
            return self._counted(_told(calls.reason), parse_errors=1)
        if not calls:
            return then(self.answer(action), self._counted)
        return self._take(calls, 0, StepResult())

    @property
    def _form(self) -> ToolFormat:
        return ToolFormat(self.context.tool_format or self.tool_format)

    def _take(
        self, calls: Sequence[Call], index: int, before: StepResult
    ) -> StepResult | Awaitable[StepResult]:
        """The calls from `index` on; those behind the end of the episode are not made."""
        if index == len(calls) or before.done or before.truncated:
            return before

        def go_on(result: StepResult) -> StepResult | Awaitable[StepResult]:
            return self._take(calls, index + 1, _joined(before, result))

        return then(self._call(calls[index]), go_on)

    def _call(self, call: Call) -> StepResult | Awaitable[StepResult]:
        methods = dict(self.tools())
        method = methods.get(call.name)
        if method is None:
            return self._counted(_told(_unknown(call.name, list(methods))), tool_errors=1)
        try:
            arguments = _arguments(method, call)
        except ValidationError as error:
            reason = f"{call.name}: {'; '.join(explain(error))}"
            return self._counted(_told(reason), tool_errors=1)
        return then(
            getattr(self, call.name)(**arguments),
            lambda said: self._counted(_result(call.name, said), tool_calls=1),
        )

    def _counted(self, result: StepResult, **counts: int) -> StepResult:
        before: Mapping[str, float] = getattr(self, "_counts", _NONE_YET)
        totals = {name: before[name] + counts.get(name, 0) for name in before}
        self._counts = totals
        return replace(result, metrics={**result.metrics, **totals})

    @classmethod
    def tools(cls) -> list[tuple[str, Callable[..., Any]]]:
        """The marked methods by name."""
        found = [(name, getattr(cls, name)) for name in dir(cls) if not name.startswith("_")]
        return [(name, method) for name, method in found if getattr(method, _MARK, False)]

    @classmethod
    def offered(cls) -> list[Tool]:
        """The tools as the policy is told of them."""
        return [Tool(name, method.__doc__, _schema(method)) for name, method in cls.tools()]


_NONE_YET = {"tool_calls": 0.0, "tool_errors": 0.0, "parse_errors": 0.0}


def has_async_tools(environment: type[Env[Any]]) -> bool:
    """Whether a call of a tool, or the answer, may have to be awaited."""
    if not issubclass(environment, ToolEnv):
        return False
    methods = [method for _, method in environment.tools()]
    return any(inspect.iscoroutinefunction(m) for m in (*methods, environment.answer))


def _model(method: Callable[..., Any]) -> type[BaseModel]:
    parameters = list(inspect.signature(method).parameters.values())[1:]
    hints = get_type_hints(method, include_extras=True)
    fields: dict[str, Any] = {
        p.name: (hints.get(p.name, str), ... if p.default is p.empty else p.default)
        for p in parameters
    }
    return create_model(method.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def _schema(method: Callable[..., Any]) -> dict[str, Any]:
    schema = _model(method).model_json_schema()
    return {key: value for key, value in schema.items() if key != "title"}


def _arguments(method: Callable[..., Any], call: Call) -> dict[str, Any]:
    model = _model(method)
    arguments = call.arguments
    if call.text is not None:  # a fenced block is the first argument
        arguments = {next(iter(model.model_fields), "text"): call.text}
    elif call.is_plain:
        arguments = {name: _typed(model, name, text) for name, text in arguments.items()}
    checked = model.model_validate(arguments)
    return {name: getattr(checked, name) for name in model.model_fields}


def _typed(model: type[BaseModel], name: str, text: str) -> object:
    """A parameter that was written as plain text, read as what the tool expects."""
    field = model.model_fields.get(name)
    if field is None or field.annotation is str:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _told(reason: str) -> StepResult:
    return StepResult([ChatMessage(role="tool", content=f"Error: {reason}")])


def _result(name: str, said: object) -> StepResult:
    if isinstance(said, StepResult):
        return said if not isinstance(said.observation, str) else _as_tool(said, said.observation)
    if isinstance(said, str):
        return _as_tool(StepResult(), said)
    raise TypeError(f"the tool {name} must return a str or a StepResult, not {type(said).__name__}")


def _as_tool(result: StepResult, text: str) -> StepResult:
    messages = [ChatMessage(role="tool", content=text)] if text else []
    return replace(result, observation=messages)


def _joined(before: StepResult, after: StepResult) -> StepResult:
    rewards = [r for r in (before.reward, after.reward) if r is not None]
    return StepResult(
        observation=[*_messages(before), *_messages(after)],
        reward=sum(rewards) if rewards else None,
        done=after.done,
        truncated=after.truncated,
        metrics={**before.metrics, **after.metrics},
        after=after.after,
        earlier={**before.earlier, **after.earlier},
    )


def _messages(result: StepResult) -> Sequence[ChatMessage]:
    if isinstance(result.observation, str):
        return [ChatMessage(role="tool", content=result.observation)] if result.observation else []
    if isinstance(result.observation, PromptTokens):
        raise TypeError("a tool shows a text or messages, not PromptTokens")
    return result.observation


def _unknown(name: str, names: Sequence[str]) -> str:
    match = nearest(name, names)
    return f"there is no tool {name!r}; " + (
        f"did you mean {match}?" if match else f"there are: {', '.join(names)}"
    )
