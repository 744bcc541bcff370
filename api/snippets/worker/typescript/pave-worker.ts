// Serves functions as tools of pave flows. Needs fetch (Node 18 or later), nothing else.
//
//   await serve("http://127.0.0.1:8318", "crm", { score_lead: ({ email }) => ({ score: 7 }) }, "pave_...");
//
// A function takes the tool's input and returns something that JSON can hold, or a promise of it. pave gives a call to
// one worker only; a function whose tool is declared idempotent may see a call again when its worker died under it.

type Tools = Record<string, (input: any) => unknown>;
type Call = { id: string; tool: string; input: any };

/** Serves calls, `parallel` at a time, until the signal aborts. */
export async function serve(server: string, pool: string, tools: Tools, key: string, signal?: AbortSignal, parallel = 4) {
  const post = async (path: string, body: unknown, abort?: AbortSignal) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetch(`${server}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body), signal: abort });
    if (!response.ok) throw Object.assign(new Error(await response.text()), { status: response.status });
    return response.status === 204 ? undefined : response.json();
  };

  const work = async (call: Call) => {
    const beat = setInterval(() => post(`/worker-calls/${call.id}/heartbeat`, {}).catch(() => {}), 10_000);
    try {
      const result = (await tools[call.tool](call.input)) ?? null;
      const size = new TextEncoder().encode(JSON.stringify(result) ?? "").length;
      if (!size || size > 16e6) throw new Error(size ? "the result is larger than 16 MB" : "the result is nothing that JSON can hold");
      return { id: call.id, result };
    } catch (error: any) { // every error of a function is the tool's answer
      return { id: call.id, error: { message: String(error?.message ?? error).slice(0, 4096) || "error", type: `${error?.name ?? "Error"}`.slice(0, 128) } };
    } finally {
      clearInterval(beat);
    }
  };

  const loop = async () => {
    let answers: { id: string; result?: unknown }[] = []; // go with the next poll
    while (!signal?.aborted) {
      try {
        const call = await post(`/workers/${pool}/poll`, { tools: Object.keys(tools), wait_ms: 20_000, answers }, signal);
        answers = call ? [await work(call)] : [];
      } catch (error: any) {
        const refused = [400, 413].includes(error?.status) && answers.length > 0; // what the function gave is nothing that pave takes
        if (refused) answers = answers.filter((a) => "result" in a).map(({ id }) => ({ id, error: { message: `pave refused the result: HTTP ${error.status}` } }));
        else if ([400, 401, 403, 404].includes(error?.status)) throw error; // waiting would not help
        else if (error?.status === 409) answers = []; // the answer came too late
        else if (!signal?.aborted) await new Promise((wake) => setTimeout(wake, 2000));
      }
    }
    if (answers.length) await post(`/workers/${pool}/poll`, { answers, only_answer: true }).catch(() => {});
  };
  await Promise.all(Array.from({ length: parallel }, loop));
}
