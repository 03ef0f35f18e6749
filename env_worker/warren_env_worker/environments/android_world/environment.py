"""Tasks of AndroidWorld, on its docker servers.

    environments:
      - name: android_world
        config: {servers: ["http://phones:5000/", "http://phones:5001/"]}
        max_turns: 20

An episode has a server for itself, and as many play at once as there are servers. The policy sees the screen as a
picture, and says one action in each turn; where it says that the task is done, the server's own check is the reward. An
episode that is cut before that has 0, as in the benchmark.

Metrics: `steps`; `invalid_actions`, which no device heard of; `refused_actions`, which it did not do; `complete`, that the
policy said so.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, PositiveInt

from warren.environment import (
    ChatMessage,
    ConfigError,
    Context,
    Env,
    EpisodeTranscript,
    Limits,
    StepResult,
)
from warren.settings import warren_home
from warren_env_worker.environments.android_world.actions import FORMS, Action, Misfit, Status, read
from warren_env_worker.environments.android_world.episode import AndroidEpisode, TaskChoice
from warren_env_worker.environments.android_world.pool import Pool
from warren_env_worker.permissions.permissions import current
from warren_env_worker.permissions.retries import MAX_CALL_S, OfCallS
from warren_schemas.fields.secret_variables import SecretVariable

MAX_SEED = 2**31
HOW = f"""\
You use a phone to reach a goal. You see its screen; say one action in each turn, as <action>JSON</action>:
{FORMS}
x and y are pixels of the picture, from its upper left corner."""
REFUSED = "The device did not do this."


class AndroidWorld(Env):
    name = "android_world"
    version = "1"
    isolation = "episode"  # pixels take seconds to read: no other episode waits for them
    limits = Limits(reset_s=MAX_CALL_S, step_s=MAX_CALL_S)

    def __init__(
        self,
        servers: Sequence[str],
        task_types: Sequence[str] = (),
        task_family: str = "android_world",
        seed: Annotated[int, Field(ge=0, lt=MAX_SEED)] | None = None,
        combinations: PositiveInt = 1,
        key_variable: SecretVariable | None = None,
        screen_width: Annotated[int, Field(ge=64, le=2160)] = 360,
        patience_s: OfCallS = 120.0,
        answer_s: OfCallS = 120.0,
        system_prompt: str | None = None,
    ) -> None:
        """URLs of the `servers`. `task_types` are played by turns; without them, all of `task_family`. What a task is
        about comes from its seed, or from this `seed`: then each type has so many `combinations`, and no more.

        `key_variable` names the env worker's variable whose value is sent as a bearer token. Pictures have
        `screen_width` pixels in a line. Where no server is well the episode fails after `patience_s`; an answer that
        takes longer than `answer_s` loses the server. `system_prompt` goes before the words that say how to act.
        """
        if not servers:
            raise ConfigError("servers: expected one URL or more")
        if seed is None and combinations > 1:
            raise ConfigError("combinations: no effect without seed; leave it out, or give a seed")
        permissions = current()
        self.services = [permissions.service(url, key_variable) for url in servers]
        self.task_types = tuple(task_types)
        self.family = task_family
        self.seed = seed
        self.combinations = combinations
        self.width = screen_width
        self.patience_s, self.answer_s = patience_s, answer_s
        self.preface = system_prompt
        self.episode: AndroidEpisode | None = None
        self.is_judged = False
        self.counts = {
            "steps": 0.0,
            "invalid_actions": 0.0,
            "refused_actions": 0.0,
            "complete": 0.0,
        }

    def system_prompt(self) -> str:
        return f"{self.preface}\n\n{HOW}" if self.preface else HOW

    async def reset(self, task: None, ctx: Context) -> list[ChatMessage]:
        seed = ctx.seed % MAX_SEED if self.seed is None else self.seed
        choice = TaskChoice(ctx.index, self.task_types, self.family, self.combinations, seed)
        pool = Pool(
            self.services,
            warren_home() / "android_world",
            patience_s=self.patience_s,
            answer_s=self.answer_s,
            width=self.width,
        )
        self.episode = AndroidEpisode(pool, choice)
        begun = await self.episode.begin()
        self.category, self.screen = begun.task_type, begun.screen
        if self.seed is not None:  # else the name says nothing of what the task is about
            self.task_id = f"{begun.task_type}_{begun.combination}"
        return [self._shown(f"Goal: {begun.goal}")]

    async def step(self, action: str) -> StepResult:
        try:
            found = self._on_device(read(action))
        except Misfit as misfit:
            self.counts["invalid_actions"] += 1
            return self._result(f"This is no action: {misfit}")
        self.counts["steps"] += 1
        if isinstance(found, Status):
            return await self._judged(found)
        answer = await self._playing.act(found.model_dump(exclude_none=True))
        self.screen = answer.screen
        self.counts["refused_actions"] += answer.is_refused
        return self._result(REFUSED if answer.is_refused else "")

    async def score(self, transcript: EpisodeTranscript) -> float | None:
        """Of an episode that was cut."""
        return None if self.is_judged else 0.0

    async def close(self) -> None:
        if self.episode is not None:
            await self.episode.close()

    async def _judged(self, status: Status) -> StepResult:
        score = await self._playing.score()
        self.is_judged = True
        self.counts["complete"] = float(status.goal_status == "complete")
        return StepResult(reward=score, done=True, metrics=dict(self.counts))

    def _result(self, words: str) -> StepResult:
        return StepResult([self._shown(words)], metrics=dict(self.counts))

    def _shown(self, words: str) -> ChatMessage:
        size = f"The screen, {self.screen.width} x {self.screen.height} pixels."
        content = "\n\n".join(filter(None, (words, size)))
        return ChatMessage(role="user", content=content, images=(self.screen.image,))

    def _on_device(self, action: Action) -> Action:
        """With the device's own pixels. Raises `Misfit`."""
        x, y = getattr(action, "x", None), getattr(action, "y", None)
        if x is None or y is None:
            return action
        place = self.screen.on_device(x, y)
        if place is None:
            raise Misfit(
                f"x and y: the screen has {self.screen.width} x {self.screen.height} pixels"
            )
        return action.model_copy(update={"x": place[0], "y": place[1]})

    @property
    def _playing(self) -> AndroidEpisode:
        assert self.episode is not None  # `reset` comes first
        return self.episode
