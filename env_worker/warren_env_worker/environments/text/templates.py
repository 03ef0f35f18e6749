"""Texts with fields in braces, as a run's config writes them.

Invariant: a template holds the fields that it may hold and nothing else: no attribute, index or format of one, so that
no text of a config reaches into an object.
"""

from collections.abc import Collection, Mapping
from string import Formatter


class Template:
    def __init__(self, text: str, fields: Collection[str], *, needs: str) -> None:
        """`needs` is the field that it can't do without. Raises `ValueError` with what is wrong."""
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise ValueError(
                f"{error}; a brace that is no field is doubled: {{{{ or }}}}"
            ) from error
        for _, name, form, conversion in parts:
            if name is not None and (name not in fields or form or conversion):
                known = ", ".join(f"{{{field}}}" for field in fields)
                raise ValueError(
                    f"there is no field {{{name}}}; there are {known}, and other braces are doubled"
                )
        self._parts = [(text, name) for text, name, *_ in parts]
        self.fields = frozenset(name for _, name in self._parts if name is not None)
        if needs not in self.fields:
            raise ValueError(f"expected {{{needs}}} in it")

    def filled(self, values: Mapping[str, str]) -> str:
        """With a value for each of its fields."""
        return "".join(text + (values[name] if name else "") for text, name in self._parts)
