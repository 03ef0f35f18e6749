"""An API server for pods of one namespace, that the real `kubectl` talks to, with a node on this machine.

It answers what sandboxes ask: pods are created, listed, watched, deleted and attached to, the last over a WebSocket as
`v5.channel.k8s.io` has it. A pod's container is a process in bubblewrap, built from the pod's own spec: its command, its user, its
variables, its folders in memory, its input that ends with the one connection that was attached to it.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from warren_schemas.isolation.kubernetes import Kubernetes

NAMESPACE = "sandboxes"
LONG_AGO = "2026-01-01T00:00:00Z"
"""All times that it tells of pods, unless a test says another."""
Json = dict[str, Any]
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_PART_BYTES = 65_536
_VERBS = ["create", "delete", "get", "list", "watch"]
_RESOURCES = [
    {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": _VERBS},
    {"name": "pods/attach", "singularName": "", "namespaced": True, "kind": "PodAttachOptions", "verbs": ["create", "get"]},
]  # fmt: skip
_KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: fake, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
contexts: [{{name: fake, context: {{cluster: fake}}}}]
current-context: fake
"""


@dataclass
class FakePod:
    told: Json
    """As the API server tells of it."""
    process: asyncio.subprocess.Process | None = None
    line: web.WebSocketResponse | None = None
    """To who is attached."""
    connection: asyncio.BaseTransport | None = None
    """The one under that line."""
    ending: Json = field(default_factory=dict[str, Any])
    """The status that it gets once its container has ended; that of its exit code unless given."""

    @property
    def name(self) -> str:
        return str(self.told["metadata"]["name"])

    @property
    def has_ended(self) -> bool:
        return self.told["status"]["phase"] in ("Succeeded", "Failed")

    def cut_off(self) -> None:
        """As an API server that goes away does it."""
        assert isinstance(self.connection, asyncio.WriteTransport)
        self.connection.abort()

    def end(self, **status: Any) -> None:
        """As the node ends it."""
        self.ending = {"phase": "Failed", **status}
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class FakeKubernetes:
    def __init__(self) -> None:
        self.pods: dict[str, FakePod] = {}
        self.created: list[Json] = []
        """The pods that were asked for."""
        self.hindrance: Json | None = None
        """The status with which pods stay, for their containers never run."""
        self.refusal: tuple[int, str] | None = None
        """What every request for pods is answered: status and reason."""
        self.is_silent = False
        """Requests for pods are not answered."""
        self.has_open_network = False
        self.address = ("127.0.0.1", 0)
        self._watchers: list[asyncio.Queue[Json]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._runner = web.AppRunner(self._app(), shutdown_timeout=0.1, handler_cancellation=True)

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = self._runner.addresses[0]

    async def stop(self) -> None:
        """Its address answers no more."""
        for pod in self.pods.values():
            if pod.process is not None and not pod.has_ended:
                pod.end()
        await asyncio.gather(*self._running)
        await self._runner.cleanup()

    @property
    def pod(self) -> FakePod:
        """The only one."""
        (pod,) = self.pods.values()
        return pod

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._admitted])
        app.router.add_get(
            "/version", _json({"major": "1", "minor": "32", "gitVersion": "v1.32.0"})
        )
        app.router.add_get("/api", _json({"kind": "APIVersions", "versions": ["v1"]}))
        app.router.add_get("/apis", _json({"kind": "APIGroupList", "groups": []}))
        resources = {"kind": "APIResourceList", "groupVersion": "v1", "resources": _RESOURCES}
        app.router.add_get("/api/v1", _json(resources))
        app.router.add_post(_PODS, self._create)
        app.router.add_get(_PODS, self._list)
        app.router.add_get(_PODS + "/{name}", self._get)
        app.router.add_delete(_PODS + "/{name}", self._delete)
        app.router.add_get(_PODS + "/{name}/attach", self._attach)
        return app

    @web.middleware
    async def _admitted(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path.startswith(_PODS) and self.is_silent:
            await asyncio.get_running_loop().create_future()
        if request.path.startswith(_PODS) and self.refusal:
            return _failure(*self.refusal, "as the test wants it")
        if "name" in request.match_info and request.match_info["name"] not in self.pods:
            return _failure(404, "NotFound", f'pods "{request.match_info["name"]}" not found')
        return await handler(request)

    async def _create(self, request: web.Request) -> web.Response:
        assert request.query["fieldValidation"] == "Strict"
        asked: Json = await request.json()
        self.created.append(asked)
        given = {"namespace": NAMESPACE, "creationTimestamp": LONG_AGO}
        metadata = asked["metadata"] | given
        pod = FakePod(asked | {"metadata": metadata, "status": {"phase": "Pending"}})
        self.pods[pod.name] = pod
        if self.hindrance is not None:
            pod.told["status"] = self.hindrance
        else:
            task = asyncio.create_task(self._lived(pod))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return web.json_response(pod.told, status=201)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
        wanted = [pod.told for pod in self.pods.values() if name in ("", pod.name)]
        if "watch" not in request.query:
            return web.json_response({"kind": "PodList", "items": wanted})
        response = web.StreamResponse()
        events = asyncio.Queue[Json]()
        for told in wanted:
            events.put_nowait({"type": "ADDED", "object": told})
        self._watchers.append(events)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                event = await events.get()
                if event["object"]["metadata"]["name"] == name:
                    await response.write(orjson.dumps(event) + b"\n")
        return response

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self.pods[request.match_info["name"]].told)

    async def _delete(self, request: web.Request) -> web.Response:
        pod = self.pods.pop(request.match_info["name"])
        if pod.process is not None and not pod.has_ended:
            pod.end()
        self._tell("DELETED", pod)
        return web.json_response(pod.told)

    async def _attach(self, request: web.Request) -> web.WebSocketResponse:
        pod = self.pods[request.match_info["name"]]
        line = pod.line = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        assert pod.process is not None and pod.process.stdin is not None
        pod.connection = request.transport
        await line.prepare(request)
        async for message in line:
            assert message.type is WSMsgType.BINARY
            if message.data == bytes([_CLOSE, _STDIN]):
                pod.process.stdin.close()
            elif message.data[0] == _STDIN:
                pod.process.stdin.write(message.data[1:])
        pod.process.stdin.close()  # stdinOnce
        return line

    async def _lived(self, pod: FakePod) -> None:
        pipe = asyncio.subprocess.PIPE
        pod.process = process = await asyncio.create_subprocess_exec(
            *container(pod.told["spec"], self),
            stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True,
        )  # fmt: skip
        self._become(pod, {"phase": "Running"}, {"running": {"startedAt": LONG_AGO}})
        assert process.stdout is not None and process.stderr is not None
        await asyncio.gather(
            _pumped(process.stdout, _STDOUT, pod), _pumped(process.stderr, _STDERR, pod)
        )
        code = await process.wait()
        status = pod.ending or {"phase": "Failed" if code else "Succeeded"}
        ended = {
            "reason": "Error" if code else "Completed",
            "exitCode": abs(code),
            "finishedAt": LONG_AGO,
        }
        self._become(pod, status, {"terminated": ended | status.pop("terminated", {})})
        if pod.line is not None:
            with contextlib.suppress(ConnectionError):
                await pod.line.send_bytes(bytes([_ERROR]) + b'{"status": "Success"}')
            await pod.line.close()

    def _become(self, pod: FakePod, status: Json, state: Json) -> None:
        pod.told["status"] = {**status, "containerStatuses": [{"name": "sandbox", "state": state}]}
        self._tell("MODIFIED", pod)

    def _tell(self, kind: str, pod: FakePod) -> None:
        for watcher in self._watchers:
            watcher.put_nowait({"type": kind, "object": orjson.loads(orjson.dumps(pod.told))})


async def _pumped(source: asyncio.StreamReader, channel: int, pod: FakePod) -> None:
    while data := await source.read(_PART_BYTES):
        if pod.line is not None and not pod.line.closed:
            with contextlib.suppress(ConnectionError):
                await pod.line.send_bytes(bytes([channel]) + data)


def _json(content: Json) -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(content)

    return answer


def _failure(status: int, reason: str, message: str) -> web.Response:
    told: Json = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {}}
    return web.json_response(
        {**told, "code": status, "reason": reason, "message": message}, status=status
    )


def container(spec: Json, cluster: FakeKubernetes) -> list[str]:
    """The command that runs a pod's container as its spec wants it."""
    (only,) = spec["containers"]
    volumes = {volume["name"]: volume["emptyDir"] for volume in spec["volumes"]}
    host, port = cluster.address
    variables = {each["name"]: each["value"] for each in only["env"]} | {
        "PATH": "/usr/bin:/bin", "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port),
    }  # fmt: skip
    mounts = [
        part
        for mount in only["volumeMounts"]
        for part in ("--size", str(_bytes(volumes[mount["name"]]["sizeLimit"])), "--tmpfs", mount["mountPath"])
    ]  # fmt: skip
    user = spec["securityContext"]
    return [
        *("bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"),
        *([] if cluster.has_open_network else ["--unshare-net"]),
        *("--as-pid-1", "--uid", str(user["runAsUser"]), "--gid", str(user["runAsGroup"]), "--clearenv"),
        *(part for item in variables.items() for part in ("--setenv", *item)),
        *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
        *("--symlink", "usr/lib64", "/lib64", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *("--proc", "/proc", "--dev", "/dev", *mounts, "--remount-ro", "/", "--chdir", only["workingDir"]),
        *("--cap-drop", "ALL", "--", *only["command"]),
    ]  # fmt: skip


def _bytes(size: str) -> int:
    return int(size.removesuffix("Mi")) << 20


Fake = tuple[FakeKubernetes, Kubernetes]
"""The cluster, and the place in it that an operator would name."""


@asynccontextmanager
async def fake_kubernetes(folder: Path) -> AsyncGenerator[Fake]:
    cluster = FakeKubernetes()
    await cluster.start()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG.format(port=cluster.address[1]))
    try:
        yield cluster, Kubernetes(namespace=NAMESPACE, kubeconfig=str(kubeconfig))
    finally:
        await cluster.stop()
