"""A foreign program that plays a whole episode at one request, and calls the model meanwhile; or lists tasks so.

Invariants: its process ends with the request, however that ends. One that is lost meanwhile is told as
`ProcessLost`, and nothing is asked again here: the host begins the episode anew, and gives it the answers that are
recorded (`warren_env_worker.host.calls`), as it does where an env worker is lost.
"""

from collections.abc import Mapping
from typing import Any

from warren.environment import ConfigError
from warren_env_worker.foreign.episode import PackageFailed
from warren_env_worker.foreign.package import Package
from warren_env_worker.foreign.package_process import PackageProcess, ProcessLost


async def answer_of(
    package: Package, made: Mapping[str, object], asked: object, variables: Mapping[str, str]
) -> dict[str, Any]:
    """`made` is what the program's `make` gets, and `asked` its `step`; `variables` are set in its process before. Raises `ConfigError`, `PackageFailed`,
    `StartFailed`, `ProcessLost`."""
    process = await package.episode()
    try:
        await _answered(process, {"variables": variables, "make": made})
        return await _answered(process, {"step": asked})
    except ProcessLost as error:
        raise ProcessLost(f"the process of {package.name} was lost") from error
    finally:
        process.close()


async def _answered(process: PackageProcess, request: Mapping[str, object]) -> dict[str, Any]:
    answer = await process.ask(request)
    if "error" in answer:
        raise (ConfigError if answer["misfit"] else PackageFailed)(answer["error"])
    return answer
