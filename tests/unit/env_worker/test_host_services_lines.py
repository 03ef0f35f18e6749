"""What is asked of host services, and what is told where there is none, or where it goes."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import ExitStack

import pytest

from warren.environment import Context
from warren.host_services import (
    HostServices,
    SandboxFailed,
    SandboxLimits,
    SandboxSettings,
    VerificationFailed,
)
from warren_env_worker.host_services.client import EpisodeServices, Session
from warren_env_worker.host_services.connecting import Front
from warren_env_worker.host_services.frames import HungUp, hear, hear_later, packed, tell
from warren_env_worker.permissions.permissions import TRUSTED


@pytest.fixture
def pair() -> Generator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_where_nothing_is_offered_the_context_says_so() -> None:
    context = Context.derive(1)
    with pytest.raises(SandboxFailed, match=r"pip install '\.\[env\]' in your clone"):
        context.python("1")
    with pytest.raises(SandboxFailed, match="no sandbox or verifier"):
        context.sandbox()
    with pytest.raises(VerificationFailed, match="no sandbox or verifier"):
        context.verify("1", "1")


def test_a_context_is_the_same_with_host_services_and_without() -> None:
    host_services: HostServices = EpisodeServices(Front().connect, TRUSTED)
    offered = Context(seed=1, host_services=host_services)
    assert offered == Context(seed=1)
    assert "ervices" not in repr(offered)


def test_what_is_told_is_heard_in_both_ways(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    tell(ours, packed({"code": "ä" * 100_000}))
    assert hear(theirs) == {"code": "ä" * 100_000}
    tell(ours, packed({"n": 1}))
    assert asyncio.run(hear_later(theirs)) == {"n": 1}
    ours.close()
    with pytest.raises(HungUp):
        hear(theirs)
    with pytest.raises(HungUp):
        asyncio.run(hear_later(theirs))


def test_a_frame_that_is_none_of_ours_is_refused(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    ours.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(HungUp, match="none of ours"):
        hear(theirs)


def test_a_worker_that_goes_is_a_failure_and_no_result() -> None:
    with ExitStack() as ends:

        def connect() -> socket.socket:
            ours, theirs = socket.socketpair()
            ends.callback(theirs.close)
            return ours

        host_services = EpisodeServices(connect, TRUSTED)
        context = Context(seed=1, host_services=host_services)
        session = context.sandbox()
        ends.close()
        with pytest.raises(SandboxFailed, match="it has ended"):
            session.run("1").wait()
        with pytest.raises(SandboxFailed, match="it has ended"):
            session.run("1").wait()
        host_services.close()


def test_a_process_without_a_worker_has_none_to_ask() -> None:
    context = Context(seed=1, host_services=EpisodeServices(Front().connect, TRUSTED))
    with pytest.raises(SandboxFailed, match="given no env worker to ask"):
        context.python("1").wait()
    with pytest.raises(VerificationFailed, match="given no env worker to ask"):
        context.verify("1", "1").wait()


def test_a_session_in_an_image_keeps_the_other_settings() -> None:
    told: list[SandboxSettings] = []

    class Noted(EpisodeServices):
        def sandbox(self, settings: SandboxSettings) -> Session:
            told.append(settings)
            raise SandboxFailed("none is opened here")

    context = Context(seed=1, host_services=Noted(Front().connect, TRUSTED))
    settings = SandboxSettings(limits=SandboxLimits(cell_s=2))
    with pytest.raises(SandboxFailed, match="none is opened here"):
        context.sandbox(settings, image="python:3.12")
    assert told == [SandboxSettings(image="python:3.12", limits=SandboxLimits(cell_s=2))]
    assert told[0].model_fields_set == {"image", "limits"}, "what is not said follows the operator"
    with pytest.raises(ValueError, match="image: has no effect with the tier monty"):
        context.sandbox(SandboxSettings(tier="monty"), image="python:3.12")


def test_a_worker_that_has_gone_leaves_no_connection_open() -> None:
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.close()
        opened.append(ours)
        return ours

    context = Context(seed=1, host_services=EpisodeServices(connect, TRUSTED))
    with pytest.raises(SandboxFailed, match="it has ended"):
        context.sandbox()
    assert [each.fileno() for each in opened] == [-1]
