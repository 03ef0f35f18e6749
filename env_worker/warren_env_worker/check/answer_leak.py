"""Whether the prompt contains the answer.

Two looks, each at several tasks. A demonstrated answer of one turn that is found in what was shown,
where it is too long to be there by chance. And what a policy would find out by itself, for answers
of any length: a word that always stands in the same place of the prompt (its last one, the one after
`answer`) is rewarded like a right answer in every task. Words that are now right and now wrong, as
the choices in `yes or no` are, are no answers.

A prompt that is nothing but the answer is a task of copying, and fine.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warren_env_worker.check.finding import Finding, bad, good, unknown
from warren_env_worker.check.probe import Probe, can_demonstrate

N_TASKS = 6
N_PROMPTS = 12
"""So many that chance gives no place the right word in all of them."""
MIN_LEAK_CHARS = 3
N_FROM_EDGES = 12
N_CUES = 24
WRONG = "junk"

_WORDS = re.compile(r"[^\s\"'`(){}\[\],;:!?=<>*|]+")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a prompt a word stands."""

    told: str
    find: Callable[[Sequence[str]], str | None]


@dataclass(frozen=True, slots=True)
class _Tasks:
    prompts: Sequence[Sequence[str]]
    wrong: Sequence[float]
    """The reward of junk, for each."""
    right: float
    """What demonstrations get."""


def leak(probe: Probe, what: str) -> Finding:
    has_demonstrations = can_demonstrate(probe.environment)
    if has_demonstrations and (told := _demonstrations_shown(probe)):
        return bad(what, told)
    tasks = _looked_at(probe, has_demonstrations)
    places = _places(tasks)
    wins = [told for place in places if (told := _wins(probe, place, tasks))]
    if wins and 2 * len(wins) <= max(len(places), 2):  # where any word wins, none is the answer
        return bad(what, wins[0])
    if has_demonstrations:
        return good(what)
    return unknown(
        what, "no word of the prompts is one; with demonstrate(), longer ones could be found"
    )


def _demonstrations_shown(probe: Probe) -> str | None:
    played = [probe.play_once(index, None) for index in range(N_TASKS)]
    shown = [(each.actions[0], each.shown[0]) for each in played if len(each.actions) == 1]
    seen = [(answer, prompt) for answer, prompt in shown if len(answer) >= MIN_LEAK_CHARS]
    if not seen or not all(_holds(prompt, answer) for answer, prompt in seen):
        return None
    answers = {answer for answer, _ in shown}
    if len(answers) > 1 and all(_holds(prompt, answer) for _, prompt in seen for answer in answers):
        return None  # each prompt names all choices
    return f"the demonstrated answer stands in all of {len(seen)} prompts"


def _holds(prompt: str, answer: str) -> bool:
    return answer in prompt and answer != prompt.strip()


def _looked_at(probe: Probe, has_demonstrations: bool) -> _Tasks:
    played = [probe.play_once(index, WRONG) for index in range(N_PROMPTS)]
    prompts = [[_bare(word) for word in _WORDS.findall(each.shown[0])] for each in played]
    wrong = [each.reward or 0.0 for each in played]
    right = float("-inf")
    if has_demonstrations:
        shown = [probe.play_once(index, None).reward or 0.0 for index in range(N_TASKS)]
        right = sum(shown) / len(shown)
    return _Tasks(prompts, wrong, right)


def _bare(word: str) -> str:
    return word.rstrip(".") or word


def _places(tasks: _Tasks) -> list[_Place]:
    """Only where each prompt has words around the answer."""
    shortest = min(map(len, tasks.prompts))
    if shortest < 2:
        return []
    n_edge = min(shortest, N_FROM_EDGES)
    last = [_nth(-number) for number in range(1, n_edge + 1)]
    first = [_nth(number) for number in range(n_edge)]
    common = set(tasks.prompts[0]).intersection(*map(set, tasks.prompts[1:]))
    cues = [word for word in dict.fromkeys(reversed(tasks.prompts[0])) if word in common]
    return [*(_after(cue) for cue in cues[:N_CUES]), *last, *first]


def _nth(number: int) -> _Place:
    told = f"word {number + 1}" if number >= 0 else f"word {-number} from the end"
    return _Place("the last word" if number == -1 else told, lambda words: words[number])


def _after(cue: str) -> _Place:
    def find(words: Sequence[str]) -> str | None:
        at = len(words) - 1 - list(reversed(words)).index(cue)
        return words[at + 1] if at + 1 < len(words) else None

    return _Place(f"the word after {cue!r}", find)


def _wins(probe: Probe, place: _Place, tasks: _Tasks) -> str | None:
    """What to say if the word in this place is rewarded in every task as a right answer is."""
    words = list[str]()
    for index, prompt in enumerate(tasks.prompts):
        word = place.find(prompt)
        if word is None:
            return None
        reward = probe.play_once(index, word).reward or 0.0
        if reward <= tasks.wrong[index] or reward < tasks.right:
            return None
        words.append(word)
    shown = ", ".join(repr(word[:20]) for word in list(dict.fromkeys(words))[:3])
    return f"{place.told} of the prompt ({shown}) is rewarded as the answer in all of {len(words)} tasks"
