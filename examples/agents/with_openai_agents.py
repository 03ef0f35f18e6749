"""The OpenAI Agents SDK: its runner, which speaks Responses. It raises where an answer was cut at the run's `max_tokens`;
then the answer counts as wrong, and the episode does not fail."""

import agents
import openai
from two_digits import TwoDigits, asked

from warren import Agent

agents.set_tracing_disabled(True)  # it would post to api.openai.com
CLIENT = openai.AsyncOpenAI(api_key="of no episode")


class WithOpenAIAgents(TwoDigits):
    name = "with_openai_agents"

    async def run(self, task: None, agent: Agent) -> None:
        client = CLIENT.with_options(base_url=agent.base_url, api_key=agent.api_key)
        model = agents.OpenAIResponsesModel("gpt-5", client)
        assistant = agents.Agent(name="assistant", model=model)
        items: list[agents.TResponseInputItem] = []

        async def say(words: str) -> str:
            try:
                result = await agents.Runner.run(
                    assistant, [*items, {"role": "user", "content": words}]
                )
            except agents.ModelBehaviorError:
                return ""
            items[:] = result.to_input_list()
            return str(result.final_output)

        await asked(agent, say)
