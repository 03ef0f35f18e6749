"""The spec of a session's pod: as little as Kubernetes can give.

Invariants: a pod has no token of the API server, no rights, no file system that it can write but memory, no more than the
session's limits, and an end: its container ends with its input, or when nobody comes, and the cluster ends it after
`LIFETIME_S` at the latest.

Its program comes over its input: so nothing that the session says is lost because nobody was attached yet, and nobody
needs the right to execute programs in pods.
"""

import secrets
from collections.abc import Mapping

import orjson

from warren.host_services.settings import SandboxSettings
from warren.isolation.syscalls import filter_program
from warren_env_worker.sandbox.archive import inside
from warren_env_worker.sandbox.containers import (
    BOOT,
    MAX_OF_USER,
    N_OWN_PROCESSES,
    USER,
    VARIABLES,
    as_text,
)
from warren_env_worker.sandbox.plan import limits_as_text
from warren_schemas.isolation.kubernetes import Kubernetes

CONTAINER = "sandbox"
LABELS = {
    "app.kubernetes.io/name": "warren-sandbox",
    "app.kubernetes.io/managed-by": "warren",
}
"""By these the network policy selects pods, and env workers find what others have left."""
START_S = 120.0
"""How long a pod may take to run: to be scheduled, and to have its image."""
LIFETIME_S = 6 * 3600
"""How long a session may last."""
OWN_MIB = 64
"""Of our supervisor and the engine, besides what cells may use."""
PROBE = """
import os, socket
def closed(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return True
print(os.getuid() != 0 and closed(os.listdir, "/var/run/secrets/kubernetes.io"), closed(open, "/warren", "w"),
    closed(os.setuid, 0), closed(socket.socket, socket.AF_INET), closed(socket.socket, socket.AF_NETLINK))
"""

_GREETED = """
import json, os, signal, socket, struct, sys, time
signal.signal(signal.SIGALRM, lambda *_: os._exit(1))  # the kernel spares process 1 what has no handler
signal.setitimer(signal.ITIMER_REAL, {start_s})  # where nobody comes
def exactly(n_bytes):
    data = b""
    while len(data) < n_bytes:
        part = os.read(0, n_bytes - len(data))
        if not part:
            sys.exit("its input ended before the session began")
        data += part
    return data
greeting = json.loads(exactly(struct.unpack("<I", exactly(4))[0]))
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
api = os.environ.pop("KUBERNETES_SERVICE_HOST", ""), os.environ.pop("KUBERNETES_SERVICE_PORT", "")
def is_open():
    try:
        socket.create_connection(api, 2).close()
    except OSError:
        return False
    time.sleep(1)  # a network's plugin may be late
    return True
if greeting["checks_network"] and not all(api):
    sys.exit("the pod is told no address of the API server, so its network can't be tried")
if greeting["checks_network"] and all(is_open() for _ in range(3)):
    sys.exit("its network is open, for it reaches the API server: no NetworkPolicy denies its traffic")
sys.argv = ["", *greeting["arguments"]]
"""


def new_name() -> str:
    return f"warren-sandbox-{secrets.token_hex(8)}"


def greeting(place: Kubernetes, settings: SandboxSettings, *, checks_network: bool) -> bytes:
    """The first frame to a session: the program, the rules and the limits that hold in it."""
    processes = settings.limits.processes + N_OWN_PROCESSES
    limits = limits_as_text(
        settings, disk="/tmp", n_processes=MAX_OF_USER if place.host_users else processes
    )
    program, rules = as_text(inside()), as_text(filter_program(has_namespaces=True))
    return orjson.dumps({"arguments": [program, rules, limits], "checks_network": checks_network})


def program(start_s: float) -> str:
    """What a pod's Python runs: it ends if its greeting has not come within `start_s`, and else begins the session."""
    return _GREETED.format(start_s=start_s) + BOOT


def pod_of(name: str, place: Kubernetes, settings: SandboxSettings) -> Mapping[str, object]:
    runtime = {} if place.runtime_class is None else {"runtimeClassName": place.runtime_class}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {
            **runtime,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIFETIME_S,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostUsers": place.host_users,
            "hostname": CONTAINER,
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["127.0.0.1"]},
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(place, settings)],
            "volumes": [
                _in_memory("tmp", settings.limits.disk_mib),
                _in_memory("shm", 1),
            ],
        },
    }


def _container(place: Kubernetes, settings: SandboxSettings) -> Mapping[str, object]:
    limits = settings.limits
    memory = (
        f"{limits.memory_mib + limits.disk_mib + OWN_MIB}Mi"  # what lies in /tmp counts as well
    )
    return {
        "name": CONTAINER,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent" if place.pull else "Never",
        "command": [settings.python or "python3", "-s", "-S", "-c", program(START_S)],
        "workingDir": "/tmp",
        "env": [{"name": name, "value": value} for name, value in VARIABLES.items()],
        "stdin": True,
        "stdinOnce": True,
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": {
            "requests": {"cpu": "100m", "memory": memory, "ephemeral-storage": "16Mi"},
            "limits": {"cpu": "1", "memory": memory, "ephemeral-storage": "64Mi"},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def _in_memory(name: str, size_mib: int) -> Mapping[str, object]:
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": f"{size_mib}Mi"}}
