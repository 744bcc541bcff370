"""Sends a tool call to pave as an OpenTelemetry span over OTLP/HTTP, with the standard library only, in the GenAI
conventions. With the OpenTelemetry SDK the same attributes go on a span of your tracer. Run by a test.
"""
import json
import os
import sys
import time
import urllib.request

server, key = sys.argv[1:3]


def attribute(name, text):
    return {"key": name, "value": {"stringValue": text}}


now = time.time_ns()
span = {"traceId": os.urandom(16).hex(), "spanId": os.urandom(8).hex(), "name": "execute_tool get_order", "kind": 1,
        "startTimeUnixNano": str(now - 10_000_000), "endTimeUnixNano": str(now),
        "attributes": [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "get_order"),
                       attribute("gen_ai.conversation.id", "snippet"), attribute("gen_ai.tool.call.arguments", json.dumps({"order_id": "W1"})),
                       attribute("gen_ai.tool.call.result", json.dumps({"status": "delivered"}))]}
body = {"resourceSpans": [{"resource": {"attributes": [attribute("service.name", "support")]}, "scopeSpans": [{"spans": [span]}]}]}
request = urllib.request.Request(server + "/v1/traces", json.dumps(body).encode(), method="POST",
                                 headers={"Authorization": "Bearer " + key, "Content-Type": "application/json"})
with urllib.request.urlopen(request) as response:
    print(response.status)
