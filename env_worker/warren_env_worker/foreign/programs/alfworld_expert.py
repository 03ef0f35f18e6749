"""Who knows where everything lies, and says the next command of a game of ALFWorld, in whatever state that is.

The package's own planner finds the shortest way, and takes up to minutes for one command in a kitchen. This one goes
by the task: fetch, change, put away. It reads the facts of the state, so it goes on from wherever somebody else has come.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple


class Aim(NamedTuple):
    """Types, as the facts name them, and what must have been done to the thing before it is put away."""

    thing: str
    place: str
    """Of furniture; of a lamp, where the thing is only looked at."""
    is_looked_at: bool
    change: str | None
    """`clean`, `heat` or `cool`."""


CHANGED = {
    "clean": ("isclean", "sinkbasintype"),
    "heat": ("ishot", "microwavetype"),
    "cool": ("iscool", "fridgetype"),
}


class Facts:
    """Of one state: which arguments each predicate is true of."""

    def __init__(self, state: Any, names: dict[str, str]) -> None:
        self._names = names
        self._of: dict[str, list[tuple[str, ...]]] = {}
        for fact in state["_facts"]:
            arguments = tuple(argument.name for argument in fact.arguments)
            self._of.setdefault(fact.name, []).append(arguments)

    def all(self, predicate: str, *, last: str | None = None) -> list[str]:
        """The first arguments where the last one is this."""
        of = sorted(self._of.get(predicate, ()))
        return [arguments[0] for arguments in of if last is None or arguments[-1] == last]

    def second(self, predicate: str, first: str) -> str | None:
        of = self._of.get(predicate, ())
        return next((arguments[-1] for arguments in of if arguments[0] == first), None)

    def holds(self, predicate: str, *arguments: str) -> bool:
        return arguments in self._of.get(predicate, ())

    def name(self, identity: str) -> str:
        return self._names[identity].strip()


def command(facts: Facts, aim: Aim) -> str:
    return next(wanted(facts, aim))


def wanted(facts: Facts, aim: Aim) -> Iterator[str]:
    """What is to be done, of which the first that is missing comes first."""
    held = facts.second("holds", "agent1")
    things = facts.all("objecttype", last=aim.thing)
    if held is None:
        thing = next(each for each in things if not is_put_away(facts, aim, each))
        yield from taking(facts, thing)
    elif held not in things:
        yield from putting_down(facts, held)
    elif aim.is_looked_at:
        lamp = facts.all("objecttype", last=aim.place)[0]
        yield from going(facts, facts.second("inreceptacle", lamp) or "")
        yield f"use {facts.name(lamp)}"
    else:
        yield from changing(facts, aim, held)
        place = goal_place(facts, aim, things)
        yield from going(facts, place)
        yield from opening(facts, place)
        yield f"move {facts.name(held)} to {facts.name(place)}"


def is_put_away(facts: Facts, aim: Aim, thing: str) -> bool:
    at = facts.second("inreceptacle", thing)
    is_there = at is not None and facts.holds("receptacletype", at, aim.place)
    return is_there and (aim.change is None or facts.holds(CHANGED[aim.change][0], thing))


def goal_place(facts: Facts, aim: Aim, things: list[str]) -> str:
    """One in which such a thing was put already, where there is one: two belong in the same."""
    places = facts.all("receptacletype", last=aim.place)
    filled = [at for thing in things if (at := facts.second("inreceptacle", thing)) in places]
    return (filled or places)[0]


def taking(facts: Facts, thing: str) -> Iterator[str]:
    at = facts.second("inreceptacle", thing) or ""
    yield from going(facts, at)
    yield from opening(facts, at)
    yield f"take {facts.name(thing)} from {facts.name(at)}"


def changing(facts: Facts, aim: Aim, thing: str) -> Iterator[str]:
    if aim.change is None:
        return
    done, of_type = CHANGED[aim.change]
    if not facts.holds(done, thing):
        at = facts.all("receptacletype", last=of_type)[0]
        yield from going(facts, at)
        yield f"{aim.change} {facts.name(thing)} with {facts.name(at)}"


def putting_down(facts: Facts, thing: str) -> Iterator[str]:
    """Where it may lie."""
    kind = facts.second("objecttype", thing) or ""
    types = facts.all("cancontain", last=kind)
    at = facts.all("receptacletype", last=types[0])[0]
    yield from going(facts, at)
    yield from opening(facts, at)
    yield f"move {facts.name(thing)} to {facts.name(at)}"


def going(facts: Facts, at: str) -> Iterator[str]:
    where = facts.second("receptacleatlocation", at)
    if where is not None and not facts.holds("atlocation", "agent1", where):
        yield f"go to {facts.name(at)}"


def opening(facts: Facts, at: str) -> Iterator[str]:
    if facts.holds("openable", at) and not facts.holds("opened", at):
        yield f"open {facts.name(at)}"
