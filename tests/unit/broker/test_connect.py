"""From a URL to a broker, and what is said when there is none."""

from pathlib import Path

import pytest
from tests.support.processes import free_port

from warren_broker.connect import open_broker, without_password
from warren_broker.errors import BrokerUnavailable, InvalidBrokerUrl
from warren_broker.rabbitmq import open_rabbitmq
from warren_broker.topology import Stream


async def test_memory_is_a_broker_here(tmp_path: Path) -> None:
    log = Stream("log")
    async with open_broker("memory:", name="test") as broker:
        assert broker.description == "in-process"
    async with open_broker(f"memory:{tmp_path}", name="test") as broker:
        await broker.declare(log)
        await broker.publish(log, b"1", message_id="1")
    async with (
        open_broker(f"memory:{tmp_path}", name="test") as broker,
        broker.read(log, start="first") as reader,
    ):
        assert (await anext(aiter(reader))).body == b"1"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "rabbit",
        "redis://u:secret@h",
        "http://h",
        "amqp://",
        "://",
        "amqp://u:secret@[h",
        "amqp://h:99999",
    ],
)
async def test_what_is_no_broker_url_is_answered_with_one(url: str) -> None:
    with pytest.raises(InvalidBrokerUrl, match="amqp://user:password@host:5672/vhost") as caught:
        async with open_broker(url, name="test"):
            pass
    assert "secret" not in str(caught.value)


async def test_a_broker_that_is_not_there_is_named_without_its_password() -> None:
    url = f"amqp://guest:secret@127.0.0.1:{free_port()}/"
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1") as caught:
        async with open_rabbitmq(url, name="test", open_s=0.2):
            pass
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://u:secret@host:5672/v", "amqp://u:***@host:5672/v"),
        ("amqp://host/v", "amqp://host/v"),
        ("amqp://u:se:cret@host", "amqp://u:***@host"),
        ("amqp://u:p[w@host", "amqp://…"),
        ("memory:", "memory:"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown
