"""Games of ALFWorld, made from their numbers: rooms, things in them, and a task, as a problem in PDDL.

The package has the rules, the texts and the floor plans of ALFRED (what stands in a room, and what may lie there), and
no game: those that it was published with are a download. Here each is made anew: its room is one of the
floor plans, and things lie where ALFRED's tables let them.

Invariants: split and number decide the game, on every machine. Each can be won: the things that the task is about can
be reached, and none of them lies where it belongs. `valid_unseen` plays in rooms that `train` never does, `valid_seen`
in those of `train`.
"""

import importlib
import json
import os
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

os.environ["ALFWORLD_DATA"] = os.path.dirname(
    __file__
)  # it would make a folder for what it downloads
constants: Any = importlib.import_module("alfworld.gen.constants")
GOALS: dict[str, Any] = importlib.import_module("alfworld.gen.goal_library").gdict
PACKAGE = os.path.dirname(importlib.import_module("alfworld").__file__ or "")

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""By turns: a game's type is that of its number, modulo six."""
SPLITS = ("train", "valid_seen", "valid_unseen")
CHANGED_BY = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}
"""What may be changed, and where."""
CHANGES = dict(zip(CHANGED_BY, ("clean", "heat", "cool"), strict=True))
LOOK, TWO = "look_at_obj_in_light", "pick_two_obj_and_place"
LAMPS: tuple[str, ...] = tuple(sorted(constants.VAL_ACTION_OBJECTS["Toggleable"]))
LAMP_STANDS = ("Bed", "CoffeeTable", "Desk", "DiningTable", "Dresser", "Shelf", "SideTable", "Sofa")
FURNITURE: set[str] = set(constants.RECEPTACLES) - set(constants.MOVABLE_RECEPTACLES)
MAX_OF_A_KIND: int = constants.MAX_NUM_OF_OBJ_INSTANCES
UNMEASURED = {"StoveBurner": 4}
"""How many there are of furniture that a floor plan names without a place: else one."""
ABILITIES = {
    "cleanable": "Cleanable",
    "heatable": "Heatable",
    "coolable": "Coolable",
    "toggleable": "Toggleable",
    "sliceable": "Sliceable",
}
_SAFE = {"|": "_bar_", "-": "_minus_", "+": "_plus_", ".": "_dot_", ",": "_comma_"}


class Room(NamedTuple):
    kind: str
    furniture: dict[str, str]
    """The type of each piece, by its id."""
    things: tuple[str, ...]
    """Types of what may lie in it, as far as it has a place for them."""
    lamps: tuple[str, ...]


class Task(NamedTuple):
    kind: str
    thing: str
    place: str
    """Type of the furniture that it belongs in or on; of a lamp, where it is to be looked at."""


class Game(NamedTuple):
    task: Task
    goal: str
    """As the policy is told."""
    problem: str


def game(split: str, number: int) -> Game:
    rng = random.Random(f"{split}\0{number}")
    kind = TASK_TYPES[number % len(TASK_TYPES)]
    for room in rng.sample(rooms(split), len(rooms(split))):
        if tasks := of_room(room, kind):
            return laid_out(room, rng.choice(tasks), rng)
    raise ValueError(f"no floor plan of {split} is fit for {kind}")


def rooms(split: str) -> list[Room]:
    return _ROOMS["valid_unseen" if split == "valid_unseen" else "train"]


def read_rooms() -> dict[str, list[Room]]:
    return {
        "train": [read_room(number) for number in constants.TRAIN_SCENE_NUMBERS],
        "valid_unseen": [read_room(number) for number in constants.TEST_SCENE_NUMBERS],
    }


def read_room(number: int) -> Room:
    """Of a floor plan."""
    kind = next(name for name, of in constants.SCENE_TYPE.items() if number in of)
    named = set(layout(number, "objects"))
    furniture = {place: furniture_type(place) for place in sorted(layout(number, "openable"))}
    for each in sorted((named & FURNITURE) - set(furniture.values())):
        count = UNMEASURED.get(each, 1)
        furniture |= {f"{each}|{nth}": each for nth in range(1, count + 1)}
    can_lie = set[str]().union(*(lies_in(each) for each in furniture.values()))
    lamps = named & set(LAMPS) if set(furniture.values()) & set(LAMP_STANDS) else set[str]()
    return Room(kind, furniture, tuple(sorted(named & can_lie)), tuple(sorted(lamps)))


def layout(number: int, what: str) -> Any:
    path = os.path.join(PACKAGE, "gen", "layouts", f"FloorPlan{number}-{what}.json")
    with open(path) as file:
        return json.load(file)


def furniture_type(place: str) -> str:
    """`Sink|-01.90|+00.97|-01.50|SinkBasin` is the basin."""
    name, *_, last = place.split("|")
    return f"{name}Basin" if last.endswith("Basin") else name


def lies_in(furniture: str) -> set[str]:
    return constants.VAL_RECEPTACLE_OBJECTS.get(furniture, set())


def of_room(room: Room, kind: str) -> list[Task]:
    """All tasks of this type that can be done there."""
    if room.kind not in constants.GOALS_VALID[kind]:
        return []
    if kind == LOOK:
        return [Task(kind, thing, lamp) for thing in room.things for lamp in room.lamps]
    of_type, where = CHANGED_BY.get(kind, (None, None))
    types = sorted(set(room.furniture.values()))
    if where is not None and where not in types:
        return []
    able = constants.VAL_ACTION_OBJECTS[of_type] if of_type else set(room.things)
    return [
        Task(kind, thing, place)
        for thing in room.things
        if thing in able
        for place in types
        if place != where and thing in lies_in(place) and begins_at(room, thing, place)
    ]


def begins_at(room: Room, thing: str, goal: str | None) -> list[str]:
    """Where such a thing may lie that does not belong there."""
    return [at for at, of in room.furniture.items() if of != goal and thing in lies_in(of)]


def laid_out(room: Room, task: Task, rng: random.Random) -> Game:
    """All things in their places; those that the task is about in places where it is not done yet."""
    lies_at: dict[str, str] = {}
    for thing in room.things:
        least = 2 if task.kind == TWO and thing == task.thing else 1
        places = begins_at(room, thing, task.place if thing == task.thing else None)
        for nth in range(min(rng.randint(least, MAX_OF_A_KIND), rng.randint(least, MAX_OF_A_KIND))):
            lies_at[f"{thing}|{nth + 1}"] = rng.choice(places)
    stands = [at for at, of in room.furniture.items() if of in LAMP_STANDS]
    lies_at |= {f"{lamp}|1": rng.choice(stands) for lamp in room.lamps}
    words = {"obj": task.thing, "recep": task.place, "toggle": task.place, "mrecep": ""}
    goal = rng.choice(GOALS[task.kind]["templates"])
    return Game(
        task,
        goal.format(**{name: word.lower() for name, word in words.items()}),
        problem(room, lies_at, GOALS[task.kind]["pddl"].format(**words)),
    )


def problem(room: Room, lies_at: dict[str, str], goal: str) -> str:
    """`goal` closes what is opened here, as those of the package do."""
    declared = "\n".join(declarations(room, lies_at))
    facts = "\n".join(f"({fact})" for fact in initial_facts(room, lies_at))
    return (
        f"(define (problem game)\n(:domain alfred)\n(:objects\n{declared}\n)\n"
        f"(:init\n{facts}\n)\n{goal.replace('#', '-')}"
    )


def declarations(room: Room, lies_at: dict[str, str]) -> Iterator[str]:
    yield "agent1 - agent"
    yield "loc_start - location"
    for each in sorted(FURNITURE):
        yield f"{each}Type - rtype"
    for each in sorted(constants.OBJECTS_SET - FURNITURE):
        yield f"{each}Type - otype"
    for at in room.furniture:
        yield f"{name(at)} - receptacle"
        yield f"loc_{name(at)} - location"
    for thing in lies_at:
        yield f"{name(thing)} - object"


def initial_facts(room: Room, lies_at: dict[str, str]) -> Iterator[str]:
    yield "atLocation agent1 loc_start"
    kinds = sorted({kind_of(thing) for thing in lies_at})
    for at, of in room.furniture.items():
        yield f"receptacleType {name(at)} {of}Type"
        yield f"receptacleAtLocation {name(at)} loc_{name(at)}"
        if of in constants.OPENABLE_CLASS_SET:
            yield f"openable {name(at)}"
    for of in sorted(set(room.furniture.values())):
        for kind in kinds:
            if kind in lies_in(of):
                yield f"canContain {of}Type {kind}Type"
    for thing, at in lies_at.items():
        yield from facts_of_a_thing(thing, at)


def facts_of_a_thing(thing: str, at: str) -> Iterator[str]:
    kind, it = kind_of(thing), name(thing)
    yield f"objectType {it} {kind}Type"
    yield f"inReceptacle {it} {name(at)}"
    yield f"objectAtLocation {it} loc_{name(at)}"
    if kind not in LAMPS:
        yield f"pickupable {it}"
    if kind in constants.MOVABLE_RECEPTACLES_SET:
        yield f"isReceptacleObject {it}"
    for ability, of in ABILITIES.items():
        if kind in constants.VAL_ACTION_OBJECTS[of]:
            yield f"{ability} {it}"


def kind_of(thing: str) -> str:
    return thing.partition("|")[0]


def name(identity: str) -> str:
    """As a symbol of PDDL, which the package makes a name of."""
    return "".join(_SAFE.get(letter, letter) for letter in identity)


_ROOMS = read_rooms()
