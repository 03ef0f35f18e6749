"""What an operator's policy says that would have no effect, or another one than it reads.

Invariants: a prefix is read by the parser that reads the URLs which are held against it, and one which that
parser would change is refused; a rule that could never apply is an error, for its author believes
that it does.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from warren_env_worker.permissions.urls import covers, parsed
from warren_env_worker.permissions.variables import passes_always
from warren_schemas.operator_policy import EVERYBODY, OperatorPolicy, SecretRule, ServiceRule


def mistakes(policy: OperatorPolicy) -> list[str]:
    """Each with the key where it stands; none for a policy that can be used."""
    wrong_urls = list(_wrong_urls(policy))
    unused = [] if wrong_urls else list(_keys_without_service(policy))
    lacking = [*_absent_paths(policy), *_needless_variables(policy), *_missing_isolation(policy)]
    return [*wrong_urls, *unused, *lacking]


def _wrong_urls(policy: OperatorPolicy) -> Iterator[str]:
    named = [(f"services.{n}.url", rule.url) for n, rule in enumerate(policy.services)]
    for name, rule in policy.secrets.items():
        named += [(f"secrets.{name}.urls.{n}", url) for n, url in enumerate(rule.urls)]
    for key, url in named:
        try:
            parsed(url)
        except ValueError as error:
            yield f"{key}: {url}: {error}"


def _keys_without_service(policy: OperatorPolicy) -> Iterator[str]:
    for name, rule in policy.secrets.items():
        for n, url in enumerate(rule.urls):
            if not any(_may_meet(rule, url, service) for service in policy.services):
                yield (
                    f"secrets.{name}.urls.{n}: {url}: no entry of services allows its owners a URL"
                    " that begins with it, so the secret is sent nowhere; list the service"
                )


def _may_meet(rule: SecretRule, url: str, service: ServiceRule) -> bool:
    """Whether some run may ask this service, with this secret, for a URL that both cover."""
    everybodys = EVERYBODY in rule.owners or EVERYBODY in service.owners
    if not (everybodys or set(rule.owners) & set(service.owners)):
        return False
    return covers(service.url, parsed(url)) or covers(url, parsed(service.url))


def _absent_paths(policy: OperatorPolicy) -> Iterator[str]:
    if policy.data_root is not None and not Path(policy.data_root).is_dir():
        yield f"data_root: {policy.data_root} is no folder"
    programs = {f"sandbox.python.{n}": path for n, path in enumerate(policy.sandbox.python)}
    programs |= {f"commands.{n}.command": rule.command[0] for n, rule in enumerate(policy.commands)}
    for key, path in programs.items():
        if not (Path(path).is_file() and os.access(path, os.X_OK)):
            yield f"{key}: {path} is no program"
    box = policy.agents.box
    for n, path in enumerate(box.readable if box else ()):
        if not Path(path).exists():
            yield f"agents.box.readable.{n}: {path} is not there"
    kubeconfig = policy.kubernetes and policy.kubernetes.kubeconfig
    if kubeconfig and not Path(kubeconfig).is_file():
        yield f"kubernetes.kubeconfig: {kubeconfig} is no file"
    for n, path in enumerate(policy.sandbox.libraries):
        if not Path(path).is_dir():
            yield f"sandbox.libraries.{n}: {path} is no folder"


def _missing_isolation(policy: OperatorPolicy) -> Iterator[str]:
    if policy.agents.box is None:
        return
    from warren.agents.box.offering import require_boxes
    from warren.isolation.errors import CannotIsolate

    try:
        require_boxes(policy.agents.box.model_copy(update={"readable": ()}))
    except CannotIsolate as error:
        yield f"agents.box: {error}"


def _needless_variables(policy: OperatorPolicy) -> Iterator[str]:
    for n, name in enumerate(policy.variables):
        if passes_always(name):
            yield f"variables.{n}: {name} is passed on anyway; leave it out"
