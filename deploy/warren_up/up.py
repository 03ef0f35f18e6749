"""`warren up`: a whole site, until Ctrl-C."""

import asyncio

from warren.cli.output import Output
from warren.settings import DEFAULT_URL, warren_home
from warren_up.readiness import Tell
from warren_up.site import Site, running

PART_WIDTH = 12


async def up(site: Site, output: Output) -> None:
    """Serve until cancelled."""
    output.line(f"Starting Warren in {site.home} …", "bold")
    async with running(site, teller(output)):
        output.line()
        output.line("Ready. Next, in another terminal:")
        output.line(f"  {_prefix(site)}warren train examples/guess.yaml", "bold")
        output.line("Ctrl-C stops everything; what was learned and recorded stays.", "dim")
        await asyncio.Event().wait()


def teller(output: Output) -> Tell:
    """One line for each part that is ready."""

    def tell(part: str, offer: str) -> None:
        output.line(f"  ✓ {part.ljust(PART_WIDTH)} {offer}", "green")

    return tell


def _prefix(site: Site) -> str:
    """What a command needs to find this site."""
    parts: list[str] = []
    if site.home != warren_home().absolute():
        parts.append(f"WARREN_HOME={site.home} ")
    if site.url != DEFAULT_URL:
        parts.append(f"WARREN_URL={site.url} ")
    return "".join(parts)
