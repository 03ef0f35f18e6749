"""A program's settings model as the options of its command: one source of names, defaults and help.

cyclopts makes an option of every field of a model that a command takes as
`Annotated[Model, Parameter(name="*")]`: its default, its type and the sentence below it. What is left
to say is how an option is called where that is not the field's name, and which environment variable
stands for it. It is said beside the command, not in the model, so that the child processes, which
read the model too, need not import the command line.
"""

from collections.abc import Mapping

from cyclopts import Parameter
from pydantic import BaseModel

UNLISTED = Parameter(parse=False)
"""A field that is no option."""


def name_options(model: type[BaseModel], names: Mapping[str, Parameter]) -> None:
    """Call fields of `model` so on the command line; field -> option."""
    for field, known in model.model_fields.items():
        if known.description:
            known.description = " ".join(known.description.split())  # help pages break lines anew
        if field in names:
            known.metadata = [*known.metadata, names[field]]
