"""pydantic-ai with its own instrumentation, over HTTP."""

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelRequest, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

from scenario import QUESTION, SESSIONS, TURNS, get_weather, provider, search_orders


def model(messages, _):
    answers = [m for m in messages if isinstance(m, ModelRequest) and any(isinstance(p, (ToolReturnPart, RetryPromptPart)) for p in m.parts)]
    if len(answers) == len(TURNS):
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart(c["name"], c["args"], tool_call_id=c["id"]) for c in TURNS[len(answers)]])


def refund(order: str, amount: float) -> str:
    """Pays back."""
    raise ModelRetry("payment gateway timeout")


p = provider("http")
for session in SESSIONS:
    agent = Agent(
        FunctionModel(model),
        name="support",
        tools=[search_orders, get_weather, refund],
        retries=5,
        capabilities=[Instrumentation(settings=InstrumentationSettings(tracer_provider=p))],
    )
    agent.run_sync(QUESTION, conversation_id=session)
p.force_flush()
