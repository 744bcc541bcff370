"""Serves Python functions as tools of pave flows. Standard library only.

    serve("http://127.0.0.1:8318", "crm", {"score_lead": score_lead}, key="pave_...")

A function takes the tool's input as keyword arguments and returns something that JSON can hold. pave gives a call to
one worker only; a function whose tool is declared idempotent may see a call again when its worker died under it.
"""
import http.client
import json
import threading
from contextlib import suppress
from urllib import error, request


def _post(server, key, path, body):
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
    with request.urlopen(request.Request(server + "/api/v1" + path, json.dumps(body).encode(), headers), timeout=60) as response:
        return json.loads(response.read() or "null")


def serve(server, pool, tools, key, stop=None):
    """Serves calls one after another until the event stop is set; start several threads for more at a time."""
    stop, answers = stop or threading.Event(), []  # answers go with the next poll
    while not stop.is_set():
        try:
            call = _post(server, key, f"/workers/{pool}/poll", {"tools": list(tools), "wait_ms": 20000, "answers": answers})
            answers = [_work(server, key, tools, call)] if call else []
        except error.HTTPError as no:
            if no.code in (400, 413) and answers:  # what the function gave is nothing that pave takes
                answers = [{"id": a["id"], "error": {"message": f"pave refused the result: {no}"}} for a in answers if "result" in a]
            elif no.code in (400, 401, 403, 404):  # wrong pool, key or scope: waiting would not help
                raise
            else:
                answers = [] if no.code == 409 else answers  # it came too late
                stop.wait(0 if no.code == 409 else 2)
        except (OSError, http.client.HTTPException):  # the server is away
            stop.wait(2)
    with suppress(Exception):  # nobody is left to try again
        _post(server, key, f"/workers/{pool}/poll", {"answers": answers, "only_answer": True})


def _work(server, key, tools, call):
    done = threading.Event()
    threading.Thread(target=_beat, args=(server, key, call["id"], done), daemon=True).start()
    try:
        result = tools[call["tool"]](**call["input"])
        if len(json.dumps(result, allow_nan=False)) > 16_000_000:
            raise ValueError("the result is larger than 16 MB")
        return {"id": call["id"], "result": result}
    except Exception as e:  # every error of a function is the tool's answer
        return {"id": call["id"], "error": {"message": str(e)[:4096] or type(e).__name__, "type": type(e).__name__[:128]}}
    finally:
        done.set()


def _beat(server, key, call_id, done):
    while not done.wait(10):
        with suppress(Exception):
            _post(server, key, f"/worker-calls/{call_id}/heartbeat", {})
