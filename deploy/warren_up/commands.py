"""`warren up` and `warren demo`. The parts are imported when a command runs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from warren_env_worker.options import ENV_DEFAULTS, EnvOptions
from warren_gateway.options import SITE_DEFAULTS, OfSite
from warren_gpu_worker.options import GPU_DEFAULTS, Adapters, BaseModels, GpuOptions

TINY = "warren/tiny"

_POSITIVE = validators.Number(gte=1)
_NOT_NEGATIVE = validators.Number(gte=0)


def up(
    *,
    base_model: BaseModels = (TINY,),
    gateway: OfSite = SITE_DEFAULTS,
    adapter: Adapters = (),
    gpu: GpuOptions = GPU_DEFAULTS,
    environments: EnvOptions = ENV_DEFAULTS,
) -> int:
    """Start everything on this machine: gateway, GPU worker, env worker; Ctrl-C stops it.

    Needs no other server. Runs, checkpoints and recordings are stored in the home folder and survive a
    restart.

    For example:
        warren up
        warren up --base-model Qwen/Qwen3-0.6B --env my_games:Chess
        warren up --base-model warren/tiny --base-model mine=/models/mine --engine transformers
    """
    import sys

    from warren.display.output import make_output
    from warren.settings import warren_home
    from warren_up.start_view import StartView

    here = gateway.model_fields_set
    home = (gateway.home if "home" in here else warren_home()).expanduser().absolute()
    output = make_output()
    output.line(f"Starting Warren in {home} …", "bold")
    view = StartView(output)
    view.open()  # before the imports, which take a second, and many on a slow disk

    from warren_up.process import run
    from warren_up.site import Site
    from warren_up.up import up as serve

    site = Site(
        home,
        gateway.port,
        gateway.host,
        base_models=base_model,
        adapters=adapter,
        gateway_options=gateway,
        gpu_options=gpu,
        env_options=environments,
        command=("warren", *sys.argv[1:]),
    )
    try:
        run(lambda: serve(site, output, view), site)
    except KeyboardInterrupt:
        output.line("Stopped.")
    finally:
        view.close()
    return 0


def demo(
    *,
    seed: Annotated[
        int, Parameter(help="Seed of model, tasks and sampling.", validator=_NOT_NEGATIVE)
    ] = 1,
    learning_rate: Annotated[
        float, Parameter(help="Learning rate; with 0 nothing is learned.", validator=_NOT_NEGATIVE)
    ] = 1e-3,
    steps: Annotated[int, Parameter(help="Maximum number of steps.", validator=_POSITIVE)] = 1500,
    home: Annotated[Path | None, Parameter(help="Home folder (default: a temporary one).")] = None,
) -> int:
    """Watch a tiny model learn a game, from nothing to a trained policy, in a few minutes.

    Starts every part, fine-tunes a model of 100,000 random weights for a few supervised steps, trains
    it by reinforcement learning, and compares the policy before and after on fresh episodes. The
    last line of the output is a JSON object with the results.

    For example:
        warren demo
        warren demo --seed 2 --home /tmp/demo
    """
    import tempfile
    import time

    from warren.display.output import make_output
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
