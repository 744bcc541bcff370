"""OpenAI Agents SDK: flows as tools over MCP. Run by a test of make test-clients, with a stand-in for the model."""
import asyncio
import os

from agents import Agent, Runner
from agents.mcp import MCPServerStreamableHttp


async def main():
    params = {"url": os.environ.get("PAVE_URL", "http://127.0.0.1:8318") + "/mcp", "headers": {"Authorization": f"Bearer {os.environ['PAVE_KEY']}"}}
    async with MCPServerStreamableHttp(name="pave", params=params) as pave:
        agent = Agent(name="support", instructions="Prefer a flow to its single steps.", mcp_servers=[pave])
        print((await Runner.run(agent, "Where is my order W1?")).final_output)


asyncio.run(main())
