"""When a coordinator looks for what the client of its model has asked for, and how closely."""

from warren_gateway.coordinator.clients import reading, requests
from warren_gateway.coordinator.mailbox import Mail
from warren_gateway.coordinator.state.coordinator import CoordinatorState


async def look(state: CoordinatorState, transact: reading.Transact, mail: Mail) -> None:
    """Everything, where more than requests may be new; a client that was taken to have left may be back with one."""
    is_back = mail.has_requests and state.client.is_gone
    if mail.is_control_changed or is_back or requests.is_look_due(state):
        await reading.look_again(state, transact)
    elif mail.has_requests or requests.has_unread(state):
        await reading.read_requests(state, transact)
