"""`warren up`: a whole site, until Ctrl-C."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from warren.display.output import Output
from warren.settings import DEFAULT_URL, warren_home
from warren_up.site import Site, running
from warren_up.start_view import StartView


async def up(site: Site, output: Output, view: StartView) -> None:
    """Serve until cancelled."""
    async with shown(site, view):
        output.line()
        output.line("Ready. Next, in another terminal:")
        output.line(f"  {_prefix(site)}warren train examples/guess.yaml", "bold")
        output.line("Ctrl-C stops everything; what was learned and recorded stays.", "dim")
        await asyncio.Event().wait()


@asynccontextmanager
async def shown(site: Site, view: StartView) -> AsyncGenerator[None]:
    """A site, and on the screen how it comes up."""
    telling = asyncio.create_task(view.keep_telling(), name="start view")
    try:
        async with running(site, view):
            telling.cancel()
            view.close()
            yield
    finally:
        telling.cancel()
        view.close()


def _prefix(site: Site) -> str:
    """What a command needs to find this site."""
    parts: list[str] = []
    if site.home != warren_home().absolute():
        parts.append(f"WARREN_HOME={site.home} ")
    if site.url != DEFAULT_URL:
        parts.append(f"WARREN_URL={site.url} ")
    return "".join(parts)
