"""What `openenv` itself makes of TrainingTraces, in `.venv-openenv`.

`traces.py pass FROM TO`: each line through its TrainingTrace, and out again
`traces.py judge FROM`: for each line, as JSON, whether it takes it
`traces.py capture TO`: rollouts as its capture records them; prints the sequences that it trains on, as JSON
"""

# pyright: basic, reportMissingImports=false
# (the package lies in an environment of its own)

import json
import sys
from pathlib import Path
from typing import Any

from openenv.core.harness import TrainingTrace
from openenv.core.harness.capture import TurnNode, to_training_trace
from openenv.core.harness.capture.export import export_session
from openenv.core.harness.capture.sessions import Session
from pydantic import ValidationError

REWARDS = (1.0, 0.25)


def lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def is_taken(line: str) -> bool:
    try:
        TrainingTrace.model_validate_json(line)
    except ValidationError:
        return False
    return True


def node(number: int, prompt: list[int], sampled: list[int]) -> TurnNode:
    return TurnNode(
        node_id=f"node-{number}",
        prompt_ids=prompt,
        sampled_ids=sampled,
        sampled_logprobs=[-0.1 * (number + 1) - 0.01 * token for token in range(len(sampled))],
        model="captured",
        finish_reason="stop",
        request_messages=[{"role": "user", "content": f"said {number}"}],
        sampling_params={"temperature": 1.0, "seed": number},
        response_message={"role": "assistant", "content": f"answer {number}"},
    )


def rollout(number: int) -> tuple[TrainingTrace, list[dict[str, Any]]]:
    """Three calls, the last behind all that was said; the environment mirrors its reward on each, and names its group."""
    session = Session(session_id=f"session-{number}")
    prompt = [1, 2 + number]
    for turn in range(3):
        sampled = [10 * (turn + 1) + n for n in range(turn + 2)]
        session.graph.add_turn(node(turn, prompt, sampled))
        prompt = [*prompt, *sampled, 50, 51]
    document = export_session(session)
    entries = to_training_trace(session.graph, document).to_trace_entries()
    for entry in entries:
        entry["metadata"] |= {"reward": REWARDS[number], "group": "captured"}
        entry["metadata"] |= {"member": number, "group_size": len(REWARDS)}
    return TrainingTrace.from_entries(entries), document["sequences"]


def main(what: str, *paths: str) -> None:
    if what == "pass":
        passed = [TrainingTrace.model_validate_json(line) for line in lines(paths[0])]
        Path(paths[1]).write_text("".join(f"{trace.model_dump_json()}\n" for trace in passed))
    elif what == "judge":
        print(json.dumps([is_taken(line) for line in lines(paths[0])]))
    else:
        captured = [rollout(number) for number in range(len(REWARDS))]
        written = "".join(f"{trace.model_dump_json()}\n" for trace, _ in captured)
        Path(paths[0]).write_text(written)
        print(json.dumps([sequences for _, sequences in captured]))


if __name__ == "__main__":
    main(*sys.argv[1:])
