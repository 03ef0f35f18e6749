"""What the docstring under a field says.

Read from the source when somebody asks: every process imports the schemas, few want their texts, and reading them
all was a third of the import.
"""

import inspect
from functools import cache

from pydantic import BaseModel


@cache
def meanings(model: type[BaseModel]) -> dict[str, str]:
    """By the field's name, those that say something."""
    from docstring_parser.attrdoc import AttributeDocstrings

    found: dict[str, str] = {}
    for part in reversed(model.__mro__):
        if issubclass(part, BaseModel) and part is not BaseModel:
            texts = AttributeDocstrings().get_attr_docs(part)
            found |= {name: inspect.cleandoc(text) for name, (text, _, _) in texts.items()}
    return found
