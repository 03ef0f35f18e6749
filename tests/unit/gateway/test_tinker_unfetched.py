"""Outcomes that clients have not come for yet, in memory."""

from warren_gateway.tinker.samples.rows import FailedSample
from warren_gateway.tinker.samples.unfetched import Unfetched


def test_an_outcome_is_told_once_and_to_its_owner() -> None:
    unfetched = Unfetched()
    unfetched.keep("ann", "a", b"one")
    assert unfetched.fetch("bob", "a") is None
    assert unfetched.fetch("ann", "b") is None
    assert unfetched.fetch("ann", "a") == b"one"
    assert unfetched.fetch("ann", "a") is None


def test_the_oldest_go_where_there_are_too_many_bytes() -> None:
    unfetched = Unfetched(most_bytes=10)
    failed = FailedSample("1234", is_users=True)
    unfetched.keep("ann", "a", b"1234")
    unfetched.keep("ann", "b", failed)
    unfetched.keep("ann", "b", failed)
    unfetched.keep("ann", "c", b"12")
    assert unfetched.fetch("ann", "a") == b"1234"
    unfetched.keep("ann", "d", b"12345")
    assert unfetched.fetch("ann", "b") is None
    assert unfetched.fetch("ann", "c") == b"12"
    assert unfetched.fetch("ann", "d") == b"12345"
    unfetched.keep("ann", "e", b"12345678901")
    assert unfetched.fetch("ann", "e") is None
