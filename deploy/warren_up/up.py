"""`warren up`: a whole site, until Ctrl-C."""

import asyncio

from warren.cli.output import Output
from warren.settings import DEFAULT_URL, warren_home
from warren_up.site import Site, running


async def up(site: Site, output: Output) -> None:
    """Serve until cancelled."""
    output.line("Starting …", "dim")
    async with running(site):
        _welcome(site, output)
        await asyncio.Event().wait()


def _welcome(site: Site, output: Output) -> None:
    output.line(f"Warren is up at {site.url}", "bold green")
    output.line(f"  API key        {site.key_file}")
    output.line(f"  base models    {', '.join(site.base_models)}")
    output.line(f"  environments   {', '.join(('guess', 'arithmetic', *site.environments))}")
    output.line(f"  runs and logs  {site.home}")
    output.line()
    output.line("Next, in another terminal:")
    output.line(f"  {_prefix(site)}warren train examples/guess.yaml", "bold")
    output.line("Ctrl-C stops everything.", "dim")


def _prefix(site: Site) -> str:
    """What a command needs to find this site."""
    parts: list[str] = []
    if site.home != warren_home():
        parts.append(f"WARREN_HOME={site.home} ")
    if site.url != DEFAULT_URL:
        parts.append(f"WARREN_URL={site.url} ")
    return "".join(parts)
