"""The pod of a sandbox, field by field, and who may have one.

What is written here was held against the schemas of Kubernetes 1.25 to 1.37: whoever changes it does so again.
"""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError
from tests.support.interacting import spec

from warren.environment import ConfigError
from warren.host_services import SandboxSettings
from warren_env_worker.host_services.frames import packed
from warren_env_worker.permissions.granting import granted
from warren_env_worker.permissions.permissions import Permissions
from warren_env_worker.sandbox.kubernetes.pod import greeting, pod_of
from warren_env_worker.sandbox.kubernetes.status import Pod
from warren_env_worker.sandbox.opening import Sandboxes
from warren_schemas.isolation.kubernetes import Kubernetes
from warren_schemas.operator_policy import OperatorPolicy

PLACE = Kubernetes(namespace="boxes")
SETTINGS = SandboxSettings.model_validate(
    {
        "image": "python:3.12",
        "tier": "kubernetes",
        "limits": {"memory_mib": 100, "disk_mib": 8, "processes": 5},
    }
)


def pod(place: Kubernetes = PLACE) -> dict[str, Any]:
    return orjson.loads(orjson.dumps(pod_of("a", place, SETTINGS)))


def test_a_pod_may_do_nothing() -> None:
    told = pod()["spec"]
    (container,) = told.pop("containers")
    assert told == {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 21600,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostUsers": False,
        "hostname": "sandbox",
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "runAsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ],
    }
    del container["command"], container["env"]
    assert container == {
        "name": "sandbox",
        "image": "python:3.12",
        "imagePullPolicy": "Never",
        "workingDir": "/tmp",
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
            "requests": {"cpu": "100m", "memory": "172Mi", "ephemeral-storage": "16Mi"},
            "limits": {"cpu": "1", "memory": "172Mi", "ephemeral-storage": "64Mi"},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def test_what_the_operator_chooses() -> None:
    chosen = {"runtime_class": "gvisor", "host_users": True, "pull": True}
    told = pod(Kubernetes.model_validate({"namespace": "boxes"} | chosen))["spec"]
    assert (told["runtimeClassName"], told["hostUsers"]) == ("gvisor", True)
    assert told["containers"][0]["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize(("host_users", "most"), [(False, 13), (True, 1 << 15)])
def test_processes_are_counted_by_the_kernel_where_the_user_is_the_pods_own(
    host_users: bool, most: int
) -> None:
    place = Kubernetes(namespace="boxes", host_users=host_users)
    told = orjson.loads(greeting(place, SETTINGS, checks_network=True))
    assert f'"RLIMIT_NPROC": {most}' in told["arguments"][2]
    assert told["checks_network"]


def test_a_policy_names_the_namespace_and_an_episodes_process_is_told() -> None:
    listed = OperatorPolicy(kubernetes=PLACE)
    trusting = OperatorPolicy(trusts_configs=True, kubernetes=PLACE)
    for policy in (listed, trusting):
        permissions = granted(policy, spec("cells")).permissions
        assert permissions.kubernetes == PLACE
        assert (
            Permissions.unpacked(
                orjson.loads(packed({"permissions": permissions})[4:])["permissions"]
            )
            == permissions
        )
    with pytest.raises(ConfigError, match=r"image: python:3\.12 is not allowed"):
        Sandboxes(SETTINGS, granted(listed, spec("cells")).permissions)


@pytest.mark.parametrize("namespace", ["", "Boxes", "a/b", "-a", "a" * 64, "a b", "a?b", ".."])
def test_a_namespace_is_a_name(namespace: str) -> None:
    with pytest.raises(ValidationError):
        Kubernetes(namespace=namespace)


def test_the_tier_needs_an_image() -> None:
    with pytest.raises(ValidationError, match="image: needed for the tier kubernetes"):
        SandboxSettings(tier="kubernetes")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, "it is Pending"),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
            "it is Failed; Evicted: low on memory",
        ),
        (
            {
                "phase": "Running",
                "conditions": [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "PreemptionByScheduler",
                    },
                    {"type": "PodScheduled", "status": "True"},
                ],
            },
            "it is Running; PreemptionByScheduler",
        ),
    ],
)
def test_a_pods_state_in_words(status: dict[str, Any], told: str) -> None:
    metadata = {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}}
    assert str(Pod.model_validate({"metadata": metadata, "status": status})) == told
