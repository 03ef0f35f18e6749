"""The base of what users write: made in Python it reads, and fails, as it does in a file.

`AlgorithmConfig(loss="cispo")` is `loss: cispo` in YAML, and a mistake is told in the same words, as
a `ConfigurationError`. This goes for what is made by a call of the class; what is read from a message
or a body is validated by pydantic alone, which tells its reader where in the whole a mistake lies.
"""

from collections.abc import Mapping

from pydantic import ValidationError

from warren_schemas.base import Frozen
from warren_schemas.errors import ConfigurationError
from warren_schemas.text.explain import explain
from warren_schemas.text.shorthand import expanded


class Config(Frozen):
    def __init__(self, /, **data: object) -> None:
        model = type(self)
        if any(isinstance(value, str | Mapping) for value in data.values()):
            data = expanded(data, model)
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise ConfigurationError(
                f"this is no valid {model.__name__}", details=explain(error, model)
            ) from error

    __init__.__pydantic_base_init__ = True  # pyright: ignore[reportFunctionMemberAccess]
    """Pydantic calls the `__init__` of a nested model that is not marked like this, as if a user had:
    the mistake's place in the whole would be lost."""
