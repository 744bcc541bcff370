"""LangChain and LangGraph: flows as tools over MCP (langchain-mcp-adapters). NOT RUN by a test: it needs a model."""
import asyncio
import os

from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.prebuilt import create_react_agent


async def main():
    client = MultiServerMCPClient({"pave": {"transport": "streamable_http", "url": "http://127.0.0.1:8318/mcp",
                                            "headers": {"Authorization": f"Bearer {os.environ['PAVE_KEY']}"}}})
    agent = create_react_agent("openai:gpt-4o", await client.get_tools())
    print(await agent.ainvoke({"messages": "Where is my order W1?"}))


asyncio.run(main())
