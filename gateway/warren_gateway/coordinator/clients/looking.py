"""When a coordinator looks for what the client of its model has asked for, and how closely.

Invariant: a request that was committed at this gateway is taken from memory only where its number says that nothing stands
before it, and nothing else is to be known for it. Whatever was lost on its way here, or came twice, is so found in the
store.
"""

from collections.abc import Sequence

from warren_gateway.coordinator.clients import reading, requests
from warren_gateway.coordinator.clients.order import in_turn
from warren_gateway.coordinator.mailbox import Mail
from warren_gateway.coordinator.state.client import Arrived
from warren_gateway.coordinator.state.coordinator import CoordinatorState


async def look(state: CoordinatorState, transact: reading.Transact, mail: Mail) -> None:
    """Everything, where more than requests may be new; a client that was taken to have left may be back with one."""
    is_back = mail.has_requests and state.client.is_gone
    if mail.is_control_changed or is_back or requests.is_look_due(state):
        await reading.look_again(state, transact)
    elif mail.has_unread_requests or requests.has_unread(state) or not _take(state, mail.requests):
        await reading.read_requests(state, transact)


def _take(state: CoordinatorState, new: Sequence[Arrived]) -> bool:
    """Know these beside what is known; False where the store has to be asked."""
    known = [*state.client.arrived, *new]
    if not new:
        return True
    if len(known) > reading.MOST_BODIES or not all(map(_is_whole, new)):
        return False
    if [one.id for one in in_turn(known, state.client.next_sequence)] != [one.id for one in known]:
        return False
    state.client.arrived = known
    return True


def _is_whole(request: Arrived) -> bool:
    if request.sequence is None or request.body is None:
        return False
    return not isinstance(request.body[1], reading.OF_KEPT)
