"""A LangGraph graph around a chat model of langchain-openai."""

import httpx
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from two_digits import TwoDigits, asked

from warren import Agent

HTTP = httpx.AsyncClient(timeout=600.0)
"""All episodes share its connections."""


class WithLangGraph(TwoDigits):
    name = "with_langgraph"

    async def run(self, task: None, agent: Agent) -> None:
        model = ChatOpenAI(
            model="gpt-5", base_url=agent.base_url, api_key=agent.api_key, http_async_client=HTTP
        )

        async def call_model(state: MessagesState) -> dict[str, list[BaseMessage]]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph = (
            StateGraph(MessagesState).add_node(call_model).add_edge(START, "call_model").compile()
        )
        history: list[BaseMessage] = []

        async def say(words: str) -> str:
            state = await graph.ainvoke({"messages": [*history, HumanMessage(words)]})
            history[:] = state["messages"]
            return str(history[-1].content)

        await asked(agent, say)
