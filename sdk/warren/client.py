"""The client of a gateway: submit runs, find them again, see workers and queues.

A thin, typed layer over HTTP. It holds no state that matters: every object lives at the gateway,
and a second client with the same key sees the same.
"""

import secrets
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

from warren.access import Access
from warren.adapters.client import Client as UploadClient
from warren.adapters.handle import model_with
from warren.configs import ConfigLike, submission, to_config
from warren.connection.renewals import Renewals
from warren.connection.transport import Transport
from warren.datasets.handle import Dataset
from warren.episodes.taking import Episodes, TaskT
from warren.errors import NotFound
from warren.evaluations.configs import config_of_evaluation, evaluated, of_recorded
from warren.evaluations.handle import Evaluation
from warren.pending import pending
from warren.run import Run
from warren.run_configs.choosing import HINT, MOST_LOOKED_AT, choose_run, is_run_id, require_one
from warren.run_configs.serving import removal, target
from warren.run_configs.sweeps.grid import Grid, configs_of
from warren.run_configs.sweeps.handle import Sweep, submit_sweep
from warren.settings import Settings, find_settings
from warren.streams.recording import Beginning, recorded_source
from warren_schemas.check import RunCheck
from warren_schemas.config import RecordedSource, RecordingFilter
from warren_schemas.http import RunList, RunView, ServedList, ServedView, SubmitRun
from warren_schemas.http.runs import OnDisconnect
from warren_schemas.ids import RunId


class Client(UploadClient):
    """Use it as `async with warren.connect() as client`."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._renewals = Renewals(transport.another)

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._renewals.stop()
        self._stop_keeping_alive()
        await self._transport.close()

    @property
    def settings(self) -> Settings:
        return self._transport.settings

    @property
    def access(self) -> Access:
        """Users, API keys and the audit log."""
        return Access(self._transport)

    @pending
    async def train(
        self,
        config: ConfigLike,
        *,
        idempotency_key: str | None = None,
        priority: int = 0,
        on_disconnect: OnDisconnect = "detach",
        client_lease_s: float | None = None,
    ) -> Run:
        """Submit a run; return as soon as the gateway has stored it.

        `config` is a `TrainConfig`, a dict of the same shape, or the path of a file in YAML or TOML. The same
        idempotency key gives the same run; without one the client makes a fresh one, so that its
        own retries never start a second run. `priority`: higher ones go first in the queue for trainers;
        more than 0 takes an admin's key. With `on_disconnect="cancel"` the run is saved and cancelled when this
        client is closed, or its process has been gone for `client_lease_s` (60 s by default); until then the
        client says by itself that it is there. Raises `ConfigurationError`.
        """
        body = submission(
            to_config(config),
            idempotency_key=idempotency_key or secrets.token_hex(16),
            priority=priority,
            on_disconnect=on_disconnect,
            client_lease_s=client_lease_s,
        )
        view = await self._transport.post("/v1/runs", RunView, body)
        if view.client_lease_s is not None and not view.state.is_final:
            self._renewals.begin(view.id, view.client_lease_s)
        return Run(self._transport, view)

    @pending
    async def sweep(
        self, config: ConfigLike, values: Grid, *, name: str | None = None, priority: int = 0
    ) -> Sweep:
        """Submit a run for each combination of values: `{"optimizer.learning_rate": [1e-4, 3e-4], "seed": [1, 2]}`.

        All are checked before the first is submitted; the same name gives the same runs. Raises `ConfigurationError`.
        """
        return await submit_sweep(self._transport, name, configs_of(config, values), priority)

    @pending
    async def evaluate(
        self,
        config: "ConfigLike | None" = None,
        *,
        policy: str | None = None,
        model: str | None = None,
        adapter: str | None = None,
        environments: Sequence[str] = (),
        episodes: int | None = None,
        samples: int | None = None,
        temperature: float | None = None,
        recorded: RecordedSource | None = None,
        idempotency_key: str | None = None,
    ) -> Evaluation:
        """Submit an evaluation, which trains nothing: a run of its own.

        Of a base model (`model`, or that of `config`), of an `adapter` that you uploaded, or with `policy="RUN@150"`, `"RUN@best"` or `"RUN@last"` of a
        checkpoint of a run that is over; then `config` may be left out: it is that run's. `environments` are
        names that stand in for the config's; `episodes`, `samples` and `temperature` go before its section `evaluation`.
        With `recorded=RecordedSource(run=run.id)` of what is recorded, as it was rewarded or with `rewards="scored"` by the
        environments of `config`; left out, it is that run's. Raises `ConfigurationError`.
        """
        asked = {"episodes": episodes, "samples": samples, "temperature": temperature}
        if recorded is not None:
            live = {"policy": policy, "adapter": adapter, **asked}
            made = await of_recorded(recorded, config, model, environments, self.run, live)
            return Evaluation(await self.train(made, idempotency_key=idempotency_key))
        brought = await model_with(self.adapters, adapter, policy, model)
        chosen = await evaluated(config, policy, model, self._trained)
        made = config_of_evaluation(
            chosen, model=brought or model, environments=environments, evaluation=asked
        )
        return Evaluation(await self.train(made, idempotency_key=idempotency_key))

    @pending
    async def check(self, config: ConfigLike) -> RunCheck:
        """Whether the gateway would take this config and could run it now, and what it may cost and probably will.
        Nothing is submitted. Raises `ConfigurationError` for what is no config."""
        body = SubmitRun(config=to_config(config))
        return await self._transport.post("/v1/runs/check", RunCheck, body)

    @pending
    async def replay(
        self,
        run: Run | Dataset | str,
        into: ConfigLike,
        *,
        from_: Beginning = None,
        also: Sequence[Run | str] = (),
        where: RecordingFilter | Mapping[str, object] | None = None,
        epochs: int = 1,
        shuffle_window: int | None = None,
        from_archive: bool = False,
        score: bool = False,
        idempotency_key: str | None = None,
    ) -> Run:
        """Submit a run that trains on what another run recorded, or evaluates it, and follows it while it goes on.

        `run` is the recording run, its id or its name, or a data set of trajectories; `into` the config of the new one, as in `train`, whose
        `source` is set to the recording and which loses what only live episodes have a use for (`sampling`,
        `algorithm.max_staleness`), or, where it trains nothing, all that has no effect on recorded episodes; `from_` an offset, a time, or a timedelta (so long ago); `also` are runs whose
        recordings come after it; `where={"min_reward": 0.5}` says which groups count; `epochs` how often all of it is
        gone through, and `shuffle_window` from how many groups the next one is drawn; `from_archive` reads what
        `retention.archive` of the runs has kept; `score` has the environments of `into` reward anew what was said.
        """
        source = recorded_source(
            None if isinstance(run, Dataset) else await self._id_of(run),
            from_,
            also=[await self._id_of(each) for each in also],
            where=where,
            epochs=epochs,
            shuffle_window=shuffle_window,
            from_archive=from_archive,
            score=score,
            dataset=run.reference if isinstance(run, Dataset) else None,
        )
        return await self.train(to_config(into).for_replay(source), idempotency_key=idempotency_key)

    def episodes(
        self,
        run: Run | str,
        *,
        environment: str | None = None,
        tasks: Sequence[TaskT] = (),
        max_live: int | None = None,
    ) -> Episodes[TaskT]:
        """Play a run's episodes in a loop of your own: `async with client.episodes(run) as episodes`.

        Its config says `workers: own` of the environment, of which no class is needed: each episode is handed to
        you with the address and the key of its model, and you say what it earned. `tasks` are dealt out by the
        number of the task in the run, the same to all members of a group. At most `max_live` are with you at a
        time: one where you iterate over them and 64 where you `play` them, unless you say so. Each fails that has not
        called its model within minutes, so take no more than you work on at once. `environment` names one of several.
        Opened, it raises `ConfigurationError` or `NotFound`.
        """

        async def find() -> Run:
            return run if isinstance(run, Run) else await self.run(run)

        return Episodes(self._transport.settings, find, environment, tasks, max_live)

    @pending
    async def serve(
        self,
        name: str,
        run: Run | str | None = None,
        *,
        model: str | None = None,
        adapter: str | None = None,
    ) -> ServedView:
        """Serve a model under a name, or point the name elsewhere; requests under way are not disturbed.

        `run` is `"RUN@best"`, `"RUN@last"`, `"RUN@150"` (after that step) or `"RUN@CHECKPOINT"`; without an `@`, or
        a `Run`, the name follows what the run publishes. `model` is a base model, `adapter` one that you uploaded. Raises `ConfigurationError`,
        `NotFound`, and `GatewayError` (409) for a policy that is not kept.
        """
        body = await target(name, run, model, adapter, self._trained)
        return await self._transport.post("/v1/served", ServedView, body)

    @pending
    async def served(self) -> tuple[ServedView, ...]:
        """The names that you may use, yours first."""
        return (await self._transport.get("/v1/served", ServedList)).served

    @pending
    async def stop_serving(self, name: str, *, owner: str | None = None) -> ServedView:
        """Stop serving a name; `owner` is for admins. Raises `NotFound`."""
        body = removal(name, owner)
        return await self._transport.post("/v1/served/remove", ServedView, body)

    @pending
    async def run(self, name: str, *, only_one: bool = False, trained: bool = False) -> Run:
        """The run with this id, name or end of an id; `last` is the newest, with `trained` of those that train.

        Of several runs of a name it is the newest that still goes on, else the newest, and the log
        says which; `only_one` refuses such a name. Raises `NotFound`, `ConfigurationError`.
        """
        if is_run_id(name):
            return Run(self._transport, await self._show(name))
        views = [run.view for run in await self.runs(limit=MOST_LOOKED_AT)]
        if only_one:
            require_one(views, name)
        return Run(self._transport, choose_run(views, name, trained=trained))

    @pending
    async def runs(self, *, limit: int = 50, sweep: str | None = None) -> list[Run]:
        """Your newest runs, the newest first, or those of a sweep; at most `limit`, which is at most 500."""
        query = urlencode({"limit": limit} | ({} if sweep is None else {"sweep": sweep}))
        answer = await self._transport.get(f"/v1/runs?{query}", RunList)
        return [Run(self._transport, view) for view in answer.runs]

    async def _trained(self, name: str) -> Run:
        return await self.run(name, trained=True)

    async def _show(self, run_id: str) -> RunView:
        try:
            return await self._transport.get(f"/v1/runs/{quote(run_id, safe='')}", RunView)
        except NotFound as error:
            raise NotFound(f"There is no run {run_id}", hint=HINT) from error

    async def _id_of(self, name: Run | str) -> RunId:
        if isinstance(name, Run):
            return name.id
        return RunId(name) if is_run_id(name) else (await self.run(name)).id


def connect(
    url: str | None = None,
    api_key: str | None = None,
    *,
    timeout_s: float = 30.0,
    retry_s: float = 10.0,
) -> Client:
    """A client of the gateway at `url`; nothing is sent yet.

    What is not given comes from `WARREN_URL` and `WARREN_API_KEY`, then from this machine's own
    gateway (http://127.0.0.1:8642, `~/.warren/api-key`). One try of a request takes at most
    `timeout_s`; a gateway that is away or busy is tried again for `retry_s`.
    """
    return Client(Transport(find_settings(url, api_key), timeout_s=timeout_s, retry_s=retry_s))
