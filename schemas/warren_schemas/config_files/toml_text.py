"""TOML, with the same answers as YAML: a value, or where the text is wrong."""

import re
import tomllib


class TomlError(ValueError):
    """The text is no TOML; says where and why."""


_PLACE = re.compile(
    r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$"
)


def parse_toml(text: str) -> dict[str, object]:
    """The keys and values that the text stands for. Raises `TomlError`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(_told(str(error))) from error
    except RecursionError as error:
        raise TomlError("the lists are nested too deep") from error


def _told(message: str) -> str:
    """As a mistake in YAML is told: the place, then what is wrong there."""
    if (found := _PLACE.match(message)) is None:
        return message
    what = found["what"][:1].lower() + found["what"][1:]
    if found["line"] is None:
        return f"at the end: {what}"
    return f"line {found['line']}, column {found['column']}: {what}"
