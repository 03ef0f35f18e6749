"""`warren sandbox`: runs code for others, over HTTP.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

from typing import Literal

from warren.errors import ConfigurationError


def sandbox(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    tier: Literal["auto", "bubblewrap", "landlock", "monty"] = "auto",
    libraries: str | None = None,
    cell_s: float = 10.0,
    memory_mib: int = 512,
) -> None:
    """Run code in sandboxes on this machine, over HTTP (SandboxFusion's `/run_code`).

    Set WARREN_SANDBOX_KEY to require `Authorization: Bearer <key>`; without it, use an address that
    nobody else can reach.

    For example:
        warren sandbox --port 8080
        warren sandbox --tier bubblewrap --libraries /opt/lib --cell-s 30

    Parameters
    ----------
    host
        Address to listen at.
    port
        Port to listen at.
    tier
        Kind of sandbox; `auto` uses the strongest that works here.
    libraries
        Folder made by `pip install --target` with packages that code may import.
    cell_s
        Time limit of code in seconds, whatever a request asks for.
    memory_mib
        Memory limit of code in MiB.
    """
    from functools import partial

    from warren_broker.worker.program import run_program

    limits = {"cell_s": cell_s, "memory_mib": memory_mib}
    given: dict[str, object] = {"tier": tier, "libraries": libraries, "limits": limits}
    try:
        run_program(partial(_serve, host, port, given), {}, logged=("aiohttp.access",))
    except OSError as error:
        raise ConfigurationError(f"Nothing can listen at {host}:{port}: {error}") from error


async def _serve(host: str, port: int, given: dict[str, object]) -> None:
    import asyncio
    import logging
    import os

    from aiohttp import web
    from pydantic import ValidationError

    from warren.host_services.cells import SandboxFailed
    from warren.host_services.settings import SandboxSettings
    from warren_env_worker.permissions.permissions import TRUSTED
    from warren_env_worker.sandbox.opening import Sandboxes
    from warren_env_worker.sandbox.server import make_app
    from warren_env_worker.sandbox.spares import N_SPARES, Spares
    from warren_schemas.text.explain import explain

    spares = Spares(N_SPARES)
    try:
        settings = SandboxSettings.model_validate(given)
        sandboxes = Sandboxes(settings, TRUSTED, spares=spares)
        await (await sandboxes.open()).close()
    except ValidationError as error:
        raise ConfigurationError("These settings won't do", details=explain(error)) from error
    except SandboxFailed as error:
        raise ConfigurationError(str(error)) from error
    key = os.environ.get("WARREN_SANDBOX_KEY") or None
    runner = web.AppRunner(make_app(sandboxes, settings.limits, key=key))
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        logging.getLogger(__name__).info("serving /run_code at http://%s:%d", host, port)
        await asyncio.get_running_loop().create_future()
    finally:
        await runner.cleanup()
        await spares.close()
