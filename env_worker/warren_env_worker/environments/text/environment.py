"""An episode of a game in a foreign package, played by the actions that are read from the policy's words.

A package's program answers `begin` with what is `shown`, and `step` with that and `reward`, `done`, and where it has them
`truncated`, `won`, `admissible` (the actions that would do something) and `is_valid`: false for an action that the game
hasn't, at which nothing changed.

Invariants: words without an action never reach the game, and are no failure: the policy is told, and they count; settings
without effect are refused before the game is made.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from warren.environment import ConfigError, Context, Env, StepResult, TaskT
from warren_env_worker.environments.text.forms import (
    Form,
    Pattern,
    action_in,
    expected_by,
    where_in,
)
from warren_env_worker.environments.text.screen import Screen
from warren_env_worker.environments.text.settings import TextSettings
from warren_env_worker.environments.text.templates import Template
from warren_env_worker.foreign.episode import ForeignEpisode
from warren_env_worker.foreign.package import package


class NoAction(Exception):
    """Words that are no action of the game; the policy is told this."""


class TextEnv(Env[TaskT]):
    """Its name is also that of its package."""

    form: ClassVar[Form] = "whole"
    """Of an action, unless a config says otherwise. Games that get all words find the action in them, and take its form
    from `given` where a config has it read here."""
    given: ClassVar[str] = "{action}"
    word: ClassVar[str] = "action"
    """What an action is called."""
    blank: str = "ACTION"
    """What stands for it where the policy is told how to say one."""
    counted: ClassVar[Sequence[str]] = ()
    """Metrics that every episode has."""
    invalid_reward: ClassVar[float | None] = None
    tells_admissible: ClassVar[bool] = False
    """Whether the game can say what would do something."""

    def __init__(
        self, text: TextSettings | None, preface: str | None, *, lists: bool = False
    ) -> None:
        """`preface` goes before the sentence that says how to act; `lists` shows what is admissible behind the game's words."""
        self.text = settings = text or TextSettings()
        self.preface = preface
        self.reads: Form = settings.form or self.form
        self._takes_words = self.form == "whole"
        self._reads_here = self.reads != "whole" or not self._takes_words
        given = settings.given or (self.given if self._reads_here else "{action}")
        self._given = Template(given, ("action",), needs="action")
        self.screen = Screen(settings, lists=lists)
        self.wants_admissible = lists or "admissible" in self.screen.fields
        self._require_effect(settings, lists=lists)
        is_read_for_words = self._takes_words and self._reads_here
        counted = (self._invalid_metric,) if is_read_for_words else self.counted
        self.counts = dict.fromkeys(counted, 0.0)
        self.episode: ForeignEpisode | None = None

    @abstractmethod
    def made(self, task: TaskT, ctx: Context) -> Mapping[str, object]:
        """What the program's `make` gets."""

    def begun(self, answer: Mapping[str, Any]) -> None:
        """The program has answered `begin`."""

    def read(self, said: str) -> object:
        """What the program's `step` gets of an action. Raises `NoAction`."""
        return self._given.filled({"action": said}) if self._takes_words else said

    def how(self) -> str | None:
        """The sentence that says how to act; None where the game itself says it, or the run's own prompt."""
        if self._takes_words and (self.reads == "whole" or isinstance(self.reads, Pattern)):
            return None
        return f"Say one {self.word} in each turn{where_in(self.reads, self.blank)}."

    def system_prompt(self) -> str | None:
        return "\n\n".join(part for part in (self.preface, self.how()) if part) or None

    async def reset(self, task: TaskT, ctx: Context) -> str:
        made = self.made(task, ctx)
        self.episode = ForeignEpisode(package(self.name, f"{self.name}_episode.py"), made)
        answer = await self.episode.begin()
        self.begun(answer)
        return self.screen.show(answer["shown"], answer.get("admissible"))

    async def step(self, action: str) -> StepResult:
        said = await action_in(action, self.reads)
        self.screen.note(said)
        try:
            if said is None:
                raise NoAction(f"There is no {self.word} in that: {expected_by(self.reads)}.")
            answer = await self.playing.step(self.read(said))
        except NoAction as error:
            return self._refused(str(error))
        if not answer.get("is_valid", True):
            return self._refused(answer["shown"], answer.get("admissible"))
        return self._taken(answer)

    async def close(self) -> None:
        if self.episode is not None:
            self.episode.close()

    @property
    def playing(self) -> ForeignEpisode:
        assert self.episode is not None  # `reset` comes first
        return self.episode

    def _taken(self, answer: Mapping[str, Any]) -> StepResult:
        self._count(answer)
        told = answer["shown"], answer.get("admissible")
        is_done, is_truncated = bool(answer["done"]), bool(answer.get("truncated"))
        is_over = is_done or is_truncated
        return StepResult(
            self.screen.end(*told) if is_over else self.screen.show(*told),
            answer["reward"],
            is_done,
            is_truncated,
            dict(self.counts),
            after=None if is_over else self.screen.after,
        )

    def _count(self, answer: Mapping[str, Any]) -> None:
        if "steps" in self.counts:
            self.counts["steps"] += 1
        if "won" in self.counts:
            self.counts["won"] = float(answer["won"])

    def _refused(self, told: str, admissible: Sequence[str] | None = None) -> StepResult:
        """Nothing has changed in the game."""
        self.counts[self._invalid_metric] += 1
        rule = self.text.invalid
        most, chosen = (None, None) if rule is None else (rule.most, rule.reward)
        is_over = most is not None and self.counts[self._invalid_metric] > most
        return StepResult(
            "" if is_over else self.screen.show_refusal(told, admissible),
            self.invalid_reward if chosen is None else chosen,
            is_over,
            metrics=dict(self.counts),
            after=None if is_over else self.screen.after,
        )

    @property
    def _invalid_metric(self) -> str:
        return f"invalid_{self.word}s"

    def _require_effect(self, settings: TextSettings, *, lists: bool) -> None:
        """Raises `ConfigError` for a setting that would change nothing here."""
        if settings.given is not None and not self._takes_words:
            raise ConfigError(f"text.given: {self.name} takes no words, but its own {self.word}s")
        if settings.invalid is not None and not self._reads_here:
            raise ConfigError(
                f"text.invalid: {self.name} takes all words; say by text.action, tag or pattern how an action is read from them"
            )
        if self.wants_admissible and not self.tells_admissible:
            raise ConfigError(f"text.template: {self.name} does not tell what is {{admissible}}")
        if lists and settings.template is not None:
            raise ConfigError(
                f"list_{self.word}s: a template shows them by {{admissible}}; leave out one of both"
            )
