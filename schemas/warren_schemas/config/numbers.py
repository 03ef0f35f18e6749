"""Numbers and names, with the limits that other languages and databases share."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

LARGEST_INT = 2**63 - 1
"""What databases and other languages can hold as well."""

PositiveInt = Annotated[int, Field(ge=1, le=LARGEST_INT)]
WholeNumber = Annotated[int, Field(ge=-LARGEST_INT, le=LARGEST_INT)]
NonNegativeInt = Annotated[int, Field(ge=0, le=LARGEST_INT)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
UnixTime = Annotated[float, Field(ge=0, le=253_402_300_799)]
"""Up to the year 9999, the last one that dates know; days of it fit into every database."""
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]

RESERVED = "warren/"
"""Environments whose names begin like this are Warren's own: gateways take their answers by such queues."""


def is_reserved(environment: str) -> bool:
    return environment.lower().startswith(RESERVED)


def _unreserved(environment: str) -> str:
    if is_reserved(environment):
        raise ValueError(
            f"names that begin with {RESERVED} are Warren's own; no env worker hosts one"
        )
    return environment


EnvironmentName = Annotated[Name, AfterValidator(_unreserved)]

NAME_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_OWNER_PATTERN = "[a-z0-9][a-z0-9._-]{0,31}"

DatasetName = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
REFERENCE_PATTERN = f"({_OWNER_PATTERN}/)?{NAME_PATTERN}(@[0-9a-f]{{6,64}})?"
DatasetReference = Annotated[str, Field(pattern=f"^{REFERENCE_PATTERN}$")]

AdapterReference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=196,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}(@[0-9a-f]{6,64})?$",
    ),
]
"""Of an adapter that was uploaded, like a data set's; or a name that GPU workers give one of theirs."""


BaseModelName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=196,
        pattern=rf"^([A-Za-z0-9][A-Za-z0-9._/-]{{0,127}}|@{REFERENCE_PATTERN})$",
    ),
]
"""What GPU workers offer, or `@` and a reference to one that was uploaded, like a data set's."""


def is_dataset_reference(text: str) -> bool:
    return re.fullmatch(REFERENCE_PATTERN, text) is not None


SplitName = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
