"""A LangGraph agent through OpenInference, over gRPC."""

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode, create_react_agent
from openinference.instrumentation.langchain import LangChainInstrumentor

from scenario import QUESTION, SESSIONS, TURNS, get_weather, provider, search_orders


class Scripted(GenericFakeChatModel):
    def bind_tools(self, *args, **kwargs):
        return self


def refund(order: str, amount: float) -> str:
    """Pays back."""
    raise RuntimeError("payment gateway timeout")


def asked(turn):
    return AIMessage("", tool_calls=[{"name": c["name"], "args": c["args"], "id": c["id"], "type": "tool_call"} for c in turn])


p = provider("grpc")
LangChainInstrumentor().instrument(tracer_provider=p)
for session in SESSIONS:
    model = Scripted(messages=iter([*map(asked, TURNS), AIMessage("done")]))
    nodes = ToolNode([tool(f) for f in (search_orders, get_weather, refund)], handle_tool_errors=True)
    create_react_agent(model, nodes).invoke({"messages": [("user", QUESTION)]}, config={"metadata": {"thread_id": session}})
p.force_flush()
