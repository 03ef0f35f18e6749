"""Environments that are agents: any program that calls a model by an address and a key.

    class Capital(warren.AgentEnv):
        name = "capital"

        async def run(self, task: None, agent: warren.Agent) -> float:
            client = openai.AsyncOpenAI(base_url=agent.base_url, api_key=agent.api_key)
            asked = {"role": "user", "content": "What is the capital of France?"}
            answer = await client.chat.completions.create(model="policy", messages=[asked])
            return float("Paris" in (answer.choices[0].message.content or ""))

Host it as any other environment: `warren env-worker --env my_module:Capital`. Each call of the model is a turn of the
episode; what `run` returns is its reward. A plain `def run` may block: each of its episodes has a process to
itself. Agents with `async def run` share a process, and must not block it.

What an episode's process has gone through is not rebuilt when it is lost: the episode fails and is tried again. An
agent that asks the same again when it gets the same answers may say `replayable = True`: then it is started again and
gets the answers that are recorded, up to where it was.
"""

import asyncio
import inspect
import re
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from warren.agents.conversation import Answer, Message, packed
from warren.agents.history import History
from warren.agents.live import MODEL, Asked, LiveAgent
from warren.agents.other_models import OtherModel
from warren.environment import (
    ConfigError,
    Context,
    Env,
    Limits,
    Observation,
    Sampled,
    Score,
    StepResult,
    TaskT,
)
from warren_schemas.chat.tools_in_chat import spoken_in

if TYPE_CHECKING:
    from warren.agents.endpoint import Endpoint

ResultT = TypeVar("ResultT")

_ANSWER_ID = re.compile(r"(?:chatcmpl-|resp_|msg_|gen-|call_)(\d{1,9})(?:_\d+)?", re.ASCII)
"""As the dialects tell it: of an answer, or of a tool call in one."""
ENDED = "the episode has ended"
ENDPOINT = "warren.agents.endpoint"
"""The module that hosts of agents need, with a web server: nobody else imports it."""
_RETURNED = "run() must return a number, named numbers or None; it returned"


class AgentFailed(Exception):
    """The agent did not do what an agent does; says what."""


@dataclass(slots=True)
class Agent:
    """What an agent gets: where the model is, and what it may say of its episode."""

    base_url: str
    """For clients of OpenAI's API: chat completions and Responses. Those of Anthropic's take `root_url`."""
    root_url: str
    api_key: str
    """Stands for this episode, and is refused once that is over."""
    context: Context
    """Chance and secrets, as for any environment."""
    model: str = MODEL
    n_answered: int = 0
    """Turns so far."""
    rewards: dict[int, float] = field(default_factory=dict[int, float])
    """By turn, counted from 1."""
    metrics: dict[str, float] = field(default_factory=dict[str, float])

    def reward(self, value: float, answer: str | None = None) -> None:
        """Add to the episode's reward, at the turn of this answer: its `id`, or that of a tool call in it. None is
        the turn that was answered last; an agent that makes several calls at once says which one it means.
        Raises `ValueError` for an answer that there was not.
        """
        if not isinstance(value, Real):
            raise TypeError(f"agent.reward() takes a number; it got {type(value).__name__}")
        turn = max(self.n_answered, 1) if answer is None else self._turn_of(answer)
        self.rewards[turn] = self.rewards.get(turn, 0.0) + float(value)

    def metric(self, name: str, value: float) -> None:
        """A number for charts; the last value of a name counts."""
        self.metrics[name] = value

    def _turn_of(self, answer: str) -> int:
        found = _ANSWER_ID.fullmatch(answer)
        turn = int(found[1]) if found else 0
        if not 1 <= turn <= self.n_answered:
            raise ValueError(f"this agent got no answer with the id {answer[:40]!r}")
        return turn


Run = Callable[[Agent], Score | Awaitable[Score]]
"""An agent, from its first call of the model to its end."""


class AgentEnv(Env[TaskT], Generic[TaskT]):
    """An agent that is played as an environment: subclass it and write `run`."""

    replayable: ClassVar[bool] = False
    sees_tokens: ClassVar[bool] = True
    limits: ClassVar[Limits] = Limits(reset_s=300.0, step_s=300.0)
    """`step_s` is how long an agent may take between two calls of the model."""
    _says_isolation: ClassVar[bool] = False
    __play: "_Play | None" = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Isolation follows from `run`, unless the class or one that it derives from says it."""
        super().__init_subclass__(**options)
        if "isolation" in vars(cls):
            cls._says_isolation = True
        elif not cls._says_isolation:
            is_async = inspect.iscoroutinefunction(inspect.unwrap(cls.run))
            cls.isolation = "shared" if is_async else "episode"

    @abstractmethod
    def run(self, task: TaskT, agent: Agent) -> Score | Awaitable[Score]:
        """Be the agent, from its first call of the model to its end. What it returns is added to what
        `agent.reward` got; None adds nothing, and `score` may be what judges."""

    def other_models(self) -> Mapping[str, OtherModel]:
        """Models besides the policy, by the names that the agent calls them (a judge, a frozen version): calls of
        them are passed on, and nothing of those is recorded or trained on. Called before `run`."""
        return {}

    @property
    def asked(self) -> tuple[Message, ...]:
        """The messages that the policy is to answer now, none where it was asked in tokens; for `demonstrate`."""
        return _begun(self.__play).asked.question.messages

    async def reset(self, task: TaskT, ctx: Context) -> Observation:
        others = self.other_models()
        if MODEL in others:
            raise ConfigError(f"other_models() names {MODEL}, which is the policy that is trained")
        from warren.agents.endpoint import endpoint  # a web server is for whoever hosts the agent

        self.__play = play = _Play(await endpoint(), LiveAgent(others), ctx)
        is_async = inspect.iscoroutinefunction(self.run)
        asked = await play.begin(lambda agent: self.run(task, agent), is_async=is_async)
        return asked.question.shown(0)

    async def step(self, action: str) -> StepResult:
        return await _begun(self.__play).step(action, self.sampled)

    async def close(self) -> None:
        """No call is answered any more, and the agent is told to stop."""
        if self.__play is not None:
            await self.__play.close()


class _Play:
    """An agent that is played, and the only state of it: in the environment a subclass might name its own the same."""

    asked: Asked
    """The call that the policy is to answer now."""

    def __init__(self, endpoint: "Endpoint", live: LiveAgent, context: Context) -> None:
        self._endpoint, self._live, self._history = endpoint, live, History()
        self._n_turns = 0
        root = endpoint.address
        self._agent = Agent(f"{root}/v1", root, endpoint.open(live), context)

    async def begin(self, run: Run, *, is_async: bool) -> Asked:
        """Its first call of the model."""
        self._task = asyncio.create_task(_result_of(run, self._agent, is_async), name="agent")
        asked = await self._next()
        if asked is None:
            raise AgentFailed("the agent ended and never called the model")
        self.asked = asked
        return asked

    async def step(self, action: str, sampled: Sampled) -> StepResult:
        self._n_turns += 1
        self._answer(action, sampled)
        asked = await self._next()
        if asked is None:
            return self._ended()
        self.asked = asked
        place = self._history.place_of(asked.question)
        earlier = dict(self._agent.rewards)
        return StepResult(
            asked.question.shown(place.n_known),
            earlier.pop(self._n_turns, None),
            metrics=dict(self._agent.metrics),
            after=place.after,
            earlier=earlier,
        )

    async def close(self) -> None:
        self._endpoint.close(self._agent.api_key, ENDED)
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=1.0)

    def _answer(self, action: str, sampled: Sampled) -> None:
        asked = self.asked
        spoken = spoken_in(action, asked.question.tool_names)
        said = Message("assistant", spoken.text or "", calls=spoken.calls)
        kept = packed(sampled)
        self._history.note(asked.question, said, self._n_turns, kept)
        self._agent.n_answered = self._n_turns
        asked.answer.set_result(Answer(self._n_turns, said, kept))

    async def _next(self) -> Asked | None:
        """The agent's next call; None when it has ended. Raises what it raises."""
        asking = asyncio.create_task(self._live.next_question(), name="next question")
        try:
            await asyncio.wait({asking, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            self._task.result()
            return None
        finally:
            asking.cancel()

    def _ended(self) -> StepResult:
        earlier, (total, parts) = dict(self._agent.rewards), _scored(self._task.result())
        given = earlier.pop(self._n_turns, None)
        both = [reward for reward in (given, total) if reward is not None]
        return StepResult(
            reward=sum(both) if both else None,
            done=True,
            metrics={**self._agent.metrics, **parts},
            earlier=earlier,
        )


def _begun(play: _Play | None) -> _Play:
    assert play is not None, "reset() comes first"
    return play


async def _result_of(run: Run, agent: Agent, is_async: bool) -> Score:
    result = run(agent) if is_async else await _in_thread(lambda: run(agent))
    return await result if inspect.isawaitable(result) else result


def _scored(result: object) -> tuple[float | None, dict[str, float]]:
    """The reward that `run` returned, and its parts. Raises `AgentFailed`."""
    if result is None or isinstance(result, Real):
        return cast("float | None", result), {}
    if not isinstance(result, Mapping):
        raise AgentFailed(f"{_RETURNED} {type(result).__name__}")
    parts = cast("Mapping[object, object]", result)
    for name, part in parts.items():
        if not (isinstance(name, str) and isinstance(part, Real)):
            raise AgentFailed(f"{_RETURNED} {type(part).__name__} for {name!r}")
    known = cast("dict[str, float]", dict(parts))
    return sum(known.values()), known


async def _in_thread(function: Callable[[], Any]) -> Any:
    """What it returns, from a thread that no end waits for: it may block for ever."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(how: Callable[[Any], None], outcome: object) -> None:
        if not done.done():
            how(outcome)

    def tell(how: Callable[[Any], None], outcome: object) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody waits for it any more
            loop.call_soon_threadsafe(settle, how, outcome)

    def run() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
            told = error if isinstance(error, Exception) else AgentFailed(f"it raised {error!r}")
            tell(done.set_exception, told)
        else:
            tell(done.set_result, result)

    threading.Thread(target=run, name="agent", daemon=True).start()
    return await done
