"""Where an env worker may start pods for sandboxes, as its operator says it."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.fields.paths import AbsolutePath

DnsLabel = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
DnsName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", max_length=253
    ),
]


class Kubernetes(Frozen):
    """A namespace that holds pods of sandboxes and nothing else."""

    namespace: DnsLabel
    kubeconfig: AbsolutePath | None = None
    """How to reach the cluster; null: this worker runs in it, and its service account's token is mounted."""
    runtime_class: DnsName | None = None
    """The RuntimeClass of the pods, for gVisor or Kata; null: the cluster's default."""
    host_users: bool = False
    """Pods share the node's users. For clusters whose nodes have no user namespaces for pods."""
    pull: bool = False
    """A node fetches an image that it lacks; else such a pod fails."""
