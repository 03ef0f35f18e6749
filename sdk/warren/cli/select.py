"""Finding the run that a person means."""

from warren.client import Client
from warren.errors import ConfigurationError, NotFound
from warren.run import Run

ID_LENGTH = len("run_") + 28
HINT = "`warren runs ls` lists your runs."


async def find_run(client: Client, name: str) -> Run:
    """By id, by the end of the id, by name, or the newest one for `last`.

    Raises `NotFound`, and `ConfigurationError` where the name fits several runs.
    """
    if name.startswith("run_") and len(name) == ID_LENGTH:
        return await _by_id(client, name)
    runs = await client.runs(limit=500)
    if name == "last":
        found = runs[:1]
    else:
        found = [run for run in runs if run.view.name == name or run.id.endswith(name)]
    if not found:
        raise NotFound(f"There is no run {name!r}", hint=HINT)
    if len(found) > 1:
        raise ConfigurationError(
            f"{name!r} fits {len(found)} runs",
            details=[run.id for run in found[:5]],
            hint="Give the whole id, or the last digits of it.",
        )
    return found[0]


async def _by_id(client: Client, run_id: str) -> Run:
    try:
        return await client.run(run_id)
    except NotFound as error:
        raise NotFound(f"There is no run {run_id}", hint=HINT) from error
