"""`warren up` and `warren demo`. The parts are imported when a command runs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

_PORT = validators.Number(gte=1, lte=65535)
_POSITIVE = validators.Number(gte=1)
_NOT_NEGATIVE = validators.Number(gte=0)
_HOME = "Folder for everything; else WARREN_HOME, else ~/.warren."


def up(
    *,
    port: Annotated[int, Parameter(help="Port of the gateway.", validator=_PORT)] = 8642,
    host: Annotated[str, Parameter(help="Address to listen at; 0.0.0.0 is every interface.")] = (
        "127.0.0.1"
    ),
    base_model: Annotated[
        tuple[str, ...], Parameter(help="Base model to offer; may come again.")
    ] = ("warren/tiny",),
    env: Annotated[
        tuple[str, ...],
        Parameter(help="Environment to host, as module:Class; may come again."),
    ] = (),
    home: Annotated[Path | None, Parameter(help=_HOME)] = None,
) -> int:
    """Start everything on this machine: gateway, GPU worker, env worker; Ctrl-C stops it.

    One process with children for whatever computes; no server to install. What was submitted,
    learned and recorded lies in the home folder and is there again after a restart.

    For example:
        warren up
        warren up --base-model Qwen/Qwen3-0.6B --env my_games:Chess
    """
    from warren.cli.output import make_output
    from warren.settings import warren_home
    from warren_up.process import run
    from warren_up.site import Site
    from warren_up.up import up as serve

    folder = (home or warren_home()).expanduser().absolute()
    site = Site(folder, port, host, base_model, env)
    output = make_output()
    try:
        run(lambda: serve(site, output), site)
    except KeyboardInterrupt:
        output.line("Stopped.")
    return 0


def demo(
    *,
    seed: Annotated[
        int, Parameter(help="Of the run: model, tasks, sampling.", validator=_NOT_NEGATIVE)
    ] = 1,
    learning_rate: Annotated[
        float, Parameter(help="0 shows that nothing else teaches.", validator=_NOT_NEGATIVE)
    ] = 1.5e-3,
    steps: Annotated[int, Parameter(help="Most optimizer steps.", validator=_POSITIVE)] = 1500,
    home: Annotated[Path | None, Parameter(help="A fresh temporary folder if not given.")] = None,
) -> int:
    """Watch a tiny model learn a game, from nothing to a trained policy, in a few minutes.

    Starts every part, warms up a model of 100,000 random weights by a few supervised steps, trains
    it by reinforcement learning, and compares the policy before and after on fresh episodes. The
    last line of the output is one JSON object with the figures.

    For example:
        warren demo
        warren demo --seed 2 --home /tmp/demo
    """
    import tempfile
    import time

    from warren.cli.output import make_output
    from warren_up.demo import figures, free_port, play
    from warren_up.process import run
    from warren_up.recipe import guess_config
    from warren_up.site import Site

    started_s = time.time()
    folder = home or Path(tempfile.mkdtemp(prefix="warren-demo-"))
    site = Site(folder.expanduser().absolute(), free_port())
    config = guess_config(seed=seed, learning_rate=learning_rate, steps=steps)
    result = run(lambda: play(site, config, make_output()), site)
    print(figures(result, started_s), flush=True)
    return 0
