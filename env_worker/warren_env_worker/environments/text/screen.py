"""What the policy is shown in each turn of a game: the game's words, or a template that a run's config fills with them.

Where it has a history, each turn begins a conversation anew: what the policy must know of the turns before stands in it.
"""

from collections import deque
from collections.abc import Sequence

from warren_env_worker.environments.text.settings import FIELDS, TextSettings
from warren_env_worker.environments.text.templates import Template

NOTHING = "(none)"


class Screen:
    def __init__(self, settings: TextSettings, *, lists: bool = False) -> None:
        """`lists` shows, without a template, what is admissible behind the game's words."""
        text = settings.template
        self._template = None if text is None else Template(text, FIELDS, needs="observation")
        self._lists = lists
        self._past: deque[tuple[int, str, str]] = deque(maxlen=settings.history or 0)
        self._turn = 0
        self._words = self._first = ""
        self._admissible: Sequence[str] = ()
        self.fields = frozenset[str]() if self._template is None else self._template.fields
        self.after = None if settings.history is None else 0
        """Of the steps that are shown: 0 begins a conversation anew."""

    def show(self, words: str, admissible: Sequence[str] | None) -> str:
        """The game has said this; None where it does not say what is admissible now."""
        self._turn += 1
        if admissible is not None:
            self._admissible = admissible
        self._words = words
        if self._turn == 1:
            self._first = words
        return self._shown(words, admissible)

    def end(self, words: str, admissible: Sequence[str] | None) -> str:
        """The last words: no turn follows that a template would speak of."""
        if not self._lists or not admissible:
            return words
        return f"{words}\n\nCommands: {', '.join(admissible)}"

    def show_refusal(self, told: str, admissible: Sequence[str] | None) -> str:
        """No action: the game has not gone on, and where the policy sees nothing else, it is shown again."""
        self._turn += 1
        again = told if self.after is None else f"{told}\n\n{self._words}"
        return self._shown(again, admissible)

    def note(self, action: str | None) -> None:
        """This was said in the present turn; None was no action."""
        self._past.append((self._turn, self._words, action or NOTHING))

    def _shown(self, words: str, admissible: Sequence[str] | None) -> str:
        if self._template is None:
            return self.end(words, admissible)
        values = {
            "observation": words,
            "turn": str(self._turn),
            "first": self._first,
            "history": self._history(),
            "admissible": ", ".join(self._admissible),
        }
        return self._template.filled(values)

    def _history(self) -> str:
        past = [f"[{turn}] {words}\n[{turn}] > {said}" for turn, words, said in self._past]
        return "\n".join(past) or NOTHING
