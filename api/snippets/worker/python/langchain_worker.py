"""Serves LangChain tools as tools of pave flows: the same objects that the agent has.

    serve_langchain("http://127.0.0.1:8318", "crm", [score_lead, search_kb], key="pave_...")
"""
from pave_worker import serve


def serve_langchain(server, pool, tools, key, stop=None):
    """Serves objects with a name and invoke(dict), as LangChain's BaseTool is."""
    def function(tool):
        return lambda **arguments: tool.invoke(arguments)

    serve(server, pool, {tool.name: function(tool) for tool in tools}, key, stop)
