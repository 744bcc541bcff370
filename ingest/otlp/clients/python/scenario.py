"""What every client here does: two sessions; in each the agent searches orders and asks for the weather in one turn, then
twice tries a refund that fails. No model is called: each framework is given one that follows this script."""

import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

SESSIONS = ("sess-A", "sess-B")
QUESTION = "refund o-1"
TURNS = [
    [
        {"id": "call_1", "name": "search_orders", "args": {"customer": 'Zoë "Z" 李'}},
        {"id": "call_2", "name": "get_weather", "args": {"city": "Paris"}},
    ],
    [{"id": "call_3", "name": "refund", "args": {"order": "o-1", "amount": 12.5}}],
    [{"id": "call_4", "name": "refund", "args": {"order": "o-1", "amount": 12.5}}],
]


def search_orders(customer: str) -> dict:
    """Finds the orders of a customer."""
    return {"orders": [{"id": "o-1", "customer": customer, "total": 12.5}]}


def get_weather(city: str) -> str:
    """Tells the weather."""
    return f"Sunny in {city}"


def provider(transport: str) -> TracerProvider:
    """Sends spans over http or grpc."""
    if transport == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter(endpoint=os.environ["PAVE_OTLP_GRPC"], insecure=True)
    else:
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter(os.environ["PAVE_OTLP_HTTP"] + "/v1/traces", compression=Compression.Gzip)
    p = TracerProvider()
    p.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(p)
    return p
