"""LlamaIndex: flows as tools over MCP (llama-index-tools-mcp, llama-index-llms-openai). Run by a test of make
test-clients, with a stand-in for the model."""
import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def main():
    client = BasicMCPClient(os.environ.get("PAVE_URL", "http://127.0.0.1:8318") + "/mcp", headers={"Authorization": f"Bearer {os.environ['PAVE_KEY']}"})
    agent = FunctionAgent(tools=await McpToolSpec(client=client).to_tool_list_async(), llm=OpenAI(model="gpt-4o"))
    print(await agent.run("Where is my order W1?"))


asyncio.run(main())
