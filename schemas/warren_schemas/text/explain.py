"""Validation errors as sentences for people: what was wrong, where, and the nearest valid key.

    algorithm.group_sise: unknown key; did you mean group_size?
    temperature: unknown key; did you mean sampling.temperature or evaluation.temperature?
    limits.step_s: unknown key; step_s is set in the environment's class: limits = Limits(step_s=…)
    model: expected keys and values, got 'warren/tiny'; write {base: warren/tiny}
    sampling.top_p: expected a number, got 'a'
    model.update.kind: expected 'full' or 'lora', got 'loraa'; did you mean lora?

A complaint about a whole is left out where there is one about a part of it: the part is the cause.
Nobody reads hundreds of lines, and a body of 1 MiB may hold half a million mistakes: the first are told,
and how many more there are.
What was given is shown for wrong types and choices only, so that a secret of the right type is not.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from warren_schemas.text.error_paths import is_place, locate, places_of
from warren_schemas.text.literature import EPOCHS, OF_A_CLASS, meant_by, our_key

MOST_TOLD = 30
MOST_LOOKED_AT = 10_000
"""Pydantic tells all its errors or none, and lets no other thread run meanwhile: 3 s for 500,000."""

_LONGEST_SHOWN = 60


class Mistakes(NamedTuple):
    lines: list[str]
    n: int
    """How many there are, told or not."""


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """One line for each of the first `MOST_TOLD` things that were wrong, and one for all others."""
    return mistakes(error, model).lines


def mistakes(error: ValidationError, model: type[BaseModel] | None = None) -> Mistakes:
    """What `explain` says, and of how many mistakes.

    `model` is the schema that it was held against; with it, places read as they were written and an
    unknown key is answered with the nearest valid one.
    """
    if (n := error.error_count()) > MOST_LOOKED_AT:
        return Mistakes([f"{n} mistakes, too many to name"], n)
    complaints: dict[tuple[str, ...], list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        if details["type"] == "default_factory_not_called":
            continue  # it was to follow from a value that is complained about
        complaints.setdefault(_path(details, model), []).append(details)
    wholes = {path[:end] for path in complaints for end in range(len(path))}
    causes = [path for path in complaints if path not in wholes]
    lines = [_line(path, complaints[path], model) for path in causes[:MOST_TOLD]]
    if len(causes) > MOST_TOLD:
        lines.append(f"and {len(causes) - MOST_TOLD} more")
    return Mistakes(lines, len(causes))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that this one was probably meant to be."""
    matches = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _path(details: ErrorDetails, model: type[BaseModel] | None) -> tuple[str, ...]:
    path = locate(model, details["loc"]).path
    if details["type"].startswith("union_tag"):
        return (*path, str(details.get("ctx", {})["discriminator"]).strip("'"))
    return path


def _line(
    path: tuple[str, ...], alternatives: list[ErrorDetails], model: type[BaseModel] | None
) -> str:
    first = alternatives[0]
    if first["type"] == "extra_forbidden":
        sentence = f"unknown key{_meant(first, model)}"
    elif first["type"] == "missing":
        sentence = "missing"
    elif first["type"] == "union_tag_not_found":
        tags = locate(model, first["loc"]).tags
        sentence = f"missing; expected {_either(', '.join(map(repr, tags)))}" if tags else "missing"
    elif all(details["type"] in _EXPECTED for details in alternatives):
        sentence = _expectation(alternatives, model)
    else:  # what was found wrong in it says more than that it might have been of another type
        found = next(details for details in alternatives if details["type"] not in _EXPECTED)
        sentence = found["msg"].removeprefix("Value error, ")
    if known := meant_by(path, _given(first)):
        sentence = f"{sentence.partition('; did you mean ')[0]}; {known}"
    return f"{'.'.join(path)}: {sentence}" if path else sentence


def _meant(details: ErrorDetails, model: type[BaseModel] | None) -> str:
    *parents, key = details["loc"]
    known = locate(model, parents).keys
    if key in OF_A_CLASS and is_place(model, "environments"):
        return f"; {key} is set in the environment's class: limits = Limits({key}=…)"
    lowered = str(key).lower()
    if (other := our_key(parents, lowered)) is not None and is_place(model, other):
        return f"; did you mean {other}{' (counted in batches)' if lowered in EPOCHS else ''}?"
    near = nearest(str(key), known)
    elsewhere = list(places_of(model, str(key))) if model else []
    meant = [near] if near else elsewhere[:3]
    if meant:
        return f"; did you mean {' or '.join(meant)}?"
    return f"; valid keys: {', '.join(sorted(known))}" if known else ""


def _expectation(alternatives: list[ErrorDetails], model: type[BaseModel] | None) -> str:
    expected = dict.fromkeys(_expected(details) for details in alternatives)
    given = _given(alternatives[0])
    choices = [choice for details in alternatives for choice in _choices(details)]
    near = nearest(given, choices) if isinstance(given, str) else None
    hint = f"; did you mean {near}?" if near else _written_out(alternatives[0], model)
    return f"expected {' or '.join(expected)}{_got(alternatives[0]['type'], given)}{hint}"


def _written_out(details: ErrorDetails, model: type[BaseModel] | None) -> str:
    """How to write a bare name, where it stands for a section that needs one key alone."""
    kind, name = details["type"], details["input"]
    sections = locate(model, details["loc"]).models
    needed = [
        key for each in sections for key, field in each.model_fields.items() if field.is_required()
    ]
    if not isinstance(name, str) or len(repr(name)) > _LONGEST_SHOWN or len(needed) != 1:
        return ""
    section = f"{{{needed[0]}: {name}}}"
    if kind in ("list_type", "tuple_type"):
        return f"; write [{section}]"
    return f"; write {section}" if kind in ("model_attributes_type", "model_type") else ""


def _expected(details: ErrorDetails) -> str:
    return _EXPECTED[details["type"]](details.get("ctx", {}))


def _given(details: ErrorDetails) -> object:
    key = {"union_tag_invalid": "tag", "too_short": "actual_length", "too_long": "actual_length"}
    context: dict[str, object] = details.get("ctx", {})
    return context.get(key.get(details["type"], ""), details["input"])


def _got(kind: str, given: object) -> str:
    """What was given instead, where that is short and surely no secret."""
    match given:
        case None:
            return ", got nothing"
        case dict():
            return ", got keys and values"
        case list() | tuple():
            return ", got a list"
        case bool():
            return f", got {str(given).lower()}"
        case int() | float() if kind == "string_type":
            return f", got {given} (quotes make it text)"
        case int() | float() | str() if kind not in _SECRET and len(repr(given)) <= _LONGEST_SHOWN:
            return f", got {given!r}"
        case _:
            return ""


def _choices(details: ErrorDetails) -> list[str]:
    context = details.get("ctx", {})
    text = context.get("expected") or context.get("expected_tags") or ""
    return re.findall(r"'([^']*)'", str(text))


def _either(text: str) -> str:
    """`'a', 'b', 'c'` with `or` before the last, however pydantic joined them."""
    *others, last = re.split(r", | or ", text)
    return f"{', '.join(others)} or {last}" if others else last


def _constant(text: str) -> Callable[[dict[str, Any]], str]:
    return lambda context: text


_SECRET = ("string_pattern_mismatch", "string_too_long", "string_too_short")
"""What is wrong with a text that is of the right type: it is not shown, it may be a key."""

_A_NUMBER, _AN_INTEGER = _constant("a number"), _constant("a whole number")
_TEXT, _A_LIST, _AN_OBJECT = _constant("text"), _constant("a list"), _constant("keys and values")

_EXPECTED: dict[str, Callable[[dict[str, Any]], str]] = {
    "bool_parsing": _constant("true or false"),
    "bool_type": _constant("true or false"),
    "dict_type": _AN_OBJECT,
    "enum": lambda context: _either(context["expected"]),
    "finite_number": _constant("a finite number"),
    "float_parsing": _A_NUMBER,
    "float_type": _A_NUMBER,
    "greater_than": lambda context: f"a number above {context['gt']:g}",
    "greater_than_equal": lambda context: f"a number of at least {context['ge']:g}",
    "int_from_float": _AN_INTEGER,
    "int_parsing": _AN_INTEGER,
    "int_type": _AN_INTEGER,
    "less_than": lambda context: f"a number below {context['lt']:g}",
    "less_than_equal": lambda context: f"a number of at most {context['le']:g}",
    "list_type": _A_LIST,
    "literal_error": lambda context: _either(context["expected"]),
    "model_attributes_type": _AN_OBJECT,
    "model_type": _AN_OBJECT,
    "string_pattern_mismatch": lambda context: f"text that matches {context['pattern']}",
    "string_too_long": lambda context: f"text of at most {context['max_length']} characters",
    "string_too_short": lambda context: f"text of at least {context['min_length']} characters",
    "string_type": _TEXT,
    "too_long": lambda context: f"{context['max_length']} or fewer entries",
    "too_short": lambda context: f"{context['min_length']} or more entries",
    "tuple_type": _A_LIST,
    "union_tag_invalid": lambda context: _either(context["expected_tags"]),
}
