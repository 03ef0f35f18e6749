"""Environment variables of env workers that hold secrets, as configs name them."""

from typing import Annotated

from pydantic import AfterValidator

PREFIX = "WARREN_SECRET_"


def _of_a_secret(variable: str) -> str:
    if not variable.startswith(PREFIX):
        raise ValueError(
            f"must begin with {PREFIX}; a run gets at no other variable of the env worker"
        )
    return variable


SecretVariable = Annotated[str, AfterValidator(_of_a_secret)]
"""An environment variable that a run's config may have sent somewhere."""
