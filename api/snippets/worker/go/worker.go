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

// Tools are the functions by tool name. One whose tool is declared idempotent may see a call again.
type Tools map[string]func(ctx context.Context, input json.RawMessage) (any, error)

// Serve serves calls of a pool one after another until ctx ends; start it several times for more at a time.
func Serve(ctx context.Context, server, pool string, tools Tools, key string) error {
	for names := slices.Sorted(maps.Keys(tools)); ctx.Err() == nil; {
		var call struct {
			ID, Tool string
			Input    json.RawMessage
		}
		switch status := post(ctx, server+"/api/v1/workers/"+pool+"/poll", key, map[string]any{"tools": names}, &call); {
		case status >= 400 && status < 405:
			return fmt.Errorf("pave answered %d: check the pool, the key and its scope", status)
		case status == 200:
			at := server + "/api/v1/worker-calls/" + call.ID
			beat := time.AfterFunc(10*time.Second, func() { // renews the lease while the function works
				for post(ctx, at+"/heartbeat", key, nil, nil) == 200 {
					time.Sleep(10 * time.Second)
				}
			})
			if result, err := tools[call.Tool](ctx, call.Input); err == nil {
				post(ctx, at+"/result", key, map[string]any{"result": result}, nil)
			} else { // every error of a function is the tool's answer
				post(ctx, at+"/error", key, map[string]any{"message": err.Error(), "type": fmt.Sprintf("%T", err)}, nil)
			}
			beat.Stop() // one that is under way ends by itself: the call is answered
		case status != 204: // the server is away or busy
			time.Sleep(time.Second)
		}
	}
	return nil
}

// post is the status of the answer, 0 when there is none.
func post(ctx context.Context, url, key string, body map[string]any, into any) int {
	raw, _ := json.Marshal(body) // a result that is no JSON goes out empty, and is refused
	req, _ := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(raw))
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		defer func() { _ = resp.Body.Close() }()
		_ = json.NewDecoder(resp.Body).Decode(into)
		return resp.StatusCode
	}
	return 0
}
