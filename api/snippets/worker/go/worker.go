// Package worker serves functions as tools of pave flows. Standard library only: copy the file.
package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Serve serves the tools one call at a time until ctx ends. A function whose tool is declared idempotent may see a call again.
func Serve(ctx context.Context, server, pool string, tools map[string]func(ctx context.Context, input json.RawMessage) (any, error), key string) error {
	answers := []map[string]any{} // go with the next poll
	for server += "/api/v1"; ctx.Err() == nil; {
		var call struct {
			ID, Tool string
			Input    json.RawMessage
		}
		switch status := post(ctx, server+"/workers/"+pool+"/poll", key, map[string]any{"tools": slices.Sorted(maps.Keys(tools)), "answers": answers}, &call); {
		case status == 200:
			beat := time.AfterFunc(10*time.Second, func() { // renews the lease while the function works
				for ; post(ctx, server+"/worker-calls/"+call.ID+"/heartbeat", key, nil, nil) == 200; time.Sleep(10 * time.Second) {
				}
			})
			result, err := tools[call.Tool](ctx, call.Input)
			if answers = []map[string]any{{"id": call.ID, "result": result}}; err != nil { // every error of a function is the tool's answer
				answers = []map[string]any{{"id": call.ID, "error": map[string]string{"message": fmt.Sprintf("%.4096s", err), "type": fmt.Sprintf("%.128T", err)}}}
			}
			beat.Stop() // one that is under way ends by itself: the call is answered
		case (status == 400 || status == 413) && len(answers) > 0 && answers[0]["error"] == nil: // what the function gave is nothing that pave takes
			answers = []map[string]any{{"id": answers[0]["id"], "error": map[string]string{"message": "the result is too large or no JSON that pave takes"}}}
		case status == 204 || status == 409: // no call, or the answer came too late
			answers = []map[string]any{}
		case status >= 400 && status < 405:
			return fmt.Errorf("pave answered %d: check the pool, the key and its scope", status)
		default: // the server is away or busy
			time.Sleep(time.Second)
		}
	}
	post(context.WithoutCancel(ctx), server+"/workers/"+pool+"/poll", key, map[string]any{"answers": answers, "only_answer": true}, nil)
	return nil
}

func post(ctx context.Context, url, key string, body map[string]any, into any) (status int) { // 0 when there is no answer
	raw, err := json.Marshal(body)
	if err != nil || len(raw) > 16<<20 {
		return 413
	}
	req, _ := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(raw))
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	if resp, err := (&http.Client{Timeout: time.Minute}).Do(req); err == nil {
		_, _, status = json.NewDecoder(resp.Body).Decode(into), resp.Body.Close(), resp.StatusCode
	}
	return status
}
