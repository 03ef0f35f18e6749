"""The model class of smolagents, in a plain function: each episode has a process to itself.

Its agents bring prompts of thousands of tokens, more than the tiny model of these examples can read;
`ToolCalls` is one of them all the same, for a larger model, or for `warren.testing.play`.
"""

from smolagents import ChatMessage, MessageRole, OpenAIModel, ToolCallingAgent, tool
from two_digits import N_DIGITS, TwoDigits, digits, is_right

from warren import Agent, AgentEnv

OpenAIModel("gpt-5", api_key="of no episode")
"""Imports what it needs only now: once, before a process is forked for each episode."""


class WithSmolagents(TwoDigits):
    name = "with_smolagents"

    def run(self, task: None, agent: Agent) -> None:
        model = OpenAIModel("gpt-5", api_base=agent.base_url, api_key=agent.api_key)
        messages: list[ChatMessage] = []
        for digit in digits(agent):
            asked = [{"type": "text", "text": f"{digit}?"}]
            messages.append(ChatMessage(role=MessageRole.USER, content=asked))
            answer = model.generate(messages)
            messages.append(answer)
            agent.reward(is_right(digit, answer.content) / N_DIGITS)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first one
        b: the second one
    """
    return a + b


class ToolCalls(AgentEnv):
    """Its agent for tools: the reward is 1 for the right sum."""

    name = "tool_calls"

    def run(self, task: None, agent: Agent) -> float:
        model = OpenAIModel("gpt-5", api_base=agent.base_url, api_key=agent.api_key)
        solver = ToolCallingAgent([add], model, max_steps=4, verbosity_level=0)
        return float(str(solver.run("What is 19 + 23?")) == "42")
