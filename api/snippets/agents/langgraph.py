"""LangChain and LangGraph: flows as tools over MCP (langchain-mcp-adapters, langchain-openai). Run by a test of make
test-clients, with a stand-in for the model."""
import asyncio
import os

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient


async def main():
    client = MultiServerMCPClient({"pave": {"transport": "streamable_http", "url": os.environ.get("PAVE_URL", "http://127.0.0.1:8318") + "/mcp",
                                            "headers": {"Authorization": f"Bearer {os.environ['PAVE_KEY']}"}}})
    agent = create_agent("openai:gpt-4o", await client.get_tools())
    answer = await agent.ainvoke({"messages": [{"role": "user", "content": "Where is my order W1?"}]})
    print(answer["messages"][-1].content)


asyncio.run(main())
