"""What a run's config says of the text between the policy and a game, whichever package plays.

    text:
      tag: move
      invalid: {reward: -0.1, most: 3}
      template: "Turn {turn}\n{observation}"

Invariant: what would have no effect is refused, where it can be told without a game.
"""

from typing import Annotated, Self

from pydantic import Field, FiniteFloat, NonNegativeInt, model_validator

from warren_env_worker.environments.text.forms import (
    Form,
    NamedForm,
    Pattern,
    PatternText,
    Tag,
    TagName,
)
from warren_env_worker.environments.text.templates import Template
from warren_schemas.base import Frozen

FIELDS = ("observation", "turn", "first", "history", "admissible")
MAX_HISTORY = 1000
Text = Annotated[str, Field(max_length=16_384)]


class Invalid(Frozen):
    """What follows from words that hold no action, or one that the game hasn't."""

    reward: FiniteFloat | None = None
    """Of such a turn; without it, what the environment gives anyway."""
    most: NonNegativeInt | None = None
    """So many of an episode are answered; the next one ends it. Without it, all are."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.reward is None and self.most is None:
            raise ValueError("expected reward, most, or both")
        return self


class TextSettings(Frozen):
    action: NamedForm | None = None
    """The form of an action; without it, a tag or a pattern: as each environment says."""
    tag: TagName | None = None
    pattern: PatternText | None = None
    given: Text | None = None
    """How a game that takes words gets the action: a template with {action}."""
    invalid: Invalid | None = None
    template: Text | None = None
    """What is shown in each turn: a template with {observation}."""
    history: Annotated[int, Field(ge=1, le=MAX_HISTORY)] | None = None
    """Each turn begins the conversation anew, and {history} of the template is so many turns before it."""

    @property
    def form(self) -> Form | None:
        """That is chosen."""
        if self.tag is not None:
            return Tag(self.tag)
        return self.action if self.pattern is None else Pattern(self.pattern)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if sum(form is not None for form in (self.action, self.tag, self.pattern)) > 1:
            raise ValueError("action, tag and pattern are forms of an action: give one of them")
        if self.given is not None:
            _told("given", self.given, ("action",))
        fields = frozenset[str]()
        if self.template is not None:
            fields = _told("template", self.template, FIELDS).fields
        if (self.history is None) != ("history" not in fields):
            raise ValueError("history and {history} in the template: give both, or none of them")
        return self


def _told(key: str, text: str, fields: tuple[str, ...]) -> Template:
    """Raises `ValueError` that names the key."""
    try:
        return Template(text, fields, needs=fields[0])
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error
