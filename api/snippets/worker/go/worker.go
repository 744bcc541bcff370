// Package worker serves functions as tools of pave flows. Standard library only: copy the file.
package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Serve serves calls of a pool one after another until ctx ends; start it several times for more at a time. tools are the
// functions by tool name; one whose tool is declared idempotent may see a call again.
func Serve(ctx context.Context, server, pool string, tools map[string]func(ctx context.Context, input json.RawMessage) (any, error), key string) error {
	names, answers := slices.Sorted(maps.Keys(tools)), []any{} // answers go with the next poll
	for server += "/api/v1"; ctx.Err() == nil; {
		var call struct {
			ID, Tool string
			Input    json.RawMessage
		}
		switch status := post(ctx, server+"/workers/"+pool+"/poll", key, map[string]any{"tools": names, "answers": answers}, &call); {
		case status == 200:
			beat := time.AfterFunc(10*time.Second, func() { // renews the lease while the function works
				for ; post(ctx, server+"/worker-calls/"+call.ID+"/heartbeat", key, nil, nil) == 200; time.Sleep(10 * time.Second) {
				}
			})
			result, err := tools[call.Tool](ctx, call.Input)
			raw, bad := json.Marshal(result)
			if answers = []any{map[string]any{"id": call.ID, "result": json.RawMessage(raw)}}; cmp.Or(err, bad) != nil { // every error of a function is the tool's answer
				answers = []any{map[string]any{"id": call.ID, "error": map[string]string{"message": cmp.Or(err, bad).Error(), "type": fmt.Sprintf("%T", cmp.Or(err, bad))}}}
			}
			beat.Stop() // one that is under way ends by itself: the call is answered
		case status == 204 || status == 409 || status == 413: // no call, or the answer came too late or is too large
			answers = []any{}
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
	raw, _ := json.Marshal(body) // nothing in it is no JSON
	req, _ := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(raw))
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	if resp, err := (&http.Client{Timeout: time.Minute}).Do(req); err == nil {
		defer func() { _ = resp.Body.Close() }()
		_ = json.NewDecoder(resp.Body).Decode(into)
		return resp.StatusCode
	}
	return 0
}
