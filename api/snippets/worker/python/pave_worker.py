"""Serves Python functions as tools of pave flows. Standard library only.

    serve("http://127.0.0.1:8318", "crm", {"score_lead": score_lead}, key="pave_...")

A function takes the tool's input as keyword arguments and returns something that JSON can hold. pave gives a call to
one worker only; a function whose tool is declared idempotent may see a call again when its worker died under it.
"""
import contextlib
import json
import threading
import urllib.error
import urllib.request


def _post(server, key, path, body, timeout=60):
    request = urllib.request.Request(server + "/api/v1" + path, json.dumps(body).encode(), method="POST",
                                     headers={"Authorization": "Bearer " + key, "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return json.loads(response.read() or "null")


def serve(server, pool, tools, key, stop=None):
    """Serves calls one after another until the event stop is set; start several threads for more at a time."""
    stop, answers = stop or threading.Event(), []  # answers go with the next poll
    while not stop.is_set():
        try:
            call = _post(server, key, f"/workers/{pool}/poll", {"tools": list(tools), "wait_ms": 20000, "answers": answers})
            answers = [_work(server, key, tools, call)] if call else []
        except urllib.error.HTTPError as error:
            if error.code in (400, 401, 403, 404):  # wrong pool, key or scope: waiting would not help
                raise
            lost = error.code in (409, 413)  # the answer came too late, or is too large
            answers = [] if lost else answers
            stop.wait(0 if lost else 2)
        except OSError:  # the server is away
            stop.wait(2)
    with contextlib.suppress(OSError):  # nobody is left to try again
        _post(server, key, f"/workers/{pool}/poll", {"answers": answers, "only_answer": True})


def _work(server, key, tools, call):
    done = threading.Event()
    threading.Thread(target=_beat, args=(server, key, call["id"], done), daemon=True).start()
    try:
        result = tools[call["tool"]](**call["input"])
        json.dumps(result, allow_nan=False)
        return {"id": call["id"], "result": result}
    except Exception as error:  # every error of a function is the tool's answer
        return {"id": call["id"], "error": {"message": str(error)[:4096] or type(error).__name__, "type": type(error).__name__}}
    finally:
        done.set()


def _beat(server, key, call_id, done):
    while not done.wait(10):
        try:
            _post(server, key, f"/worker-calls/{call_id}/heartbeat", {})
        except OSError:
            pass
