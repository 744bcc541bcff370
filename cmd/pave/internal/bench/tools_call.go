package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Caller is the child process of `pave bench tools`: agents of one MCP session that call a flow, or workers.
type Caller struct {
	URL     string // base of the server
	Key     string
	Role    string // agent or worker
	AtATime int
}

// Run says that it is ready. As an agent it then makes as many calls as each line of in asks for and answers with a line
// of JSON, Called; as a worker it serves. Both until in ends.
func (c Caller) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &speaker{Caller: c, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.AtATime}}}
	defer s.client.CloseIdleConnections()
	if c.Role == "worker" {
		return s.work(ctx, in, out)
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n := 0
		if _, err := fmt.Sscan(lines.Text(), &n); err != nil {
			return fmt.Errorf("number of calls: %w", err)
		}
		if err := json.NewEncoder(out).Encode(s.calls(ctx, n)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// speaker sends requests.
type speaker struct {
	Caller
	client  *http.Client
	session string // of MCP
	lastID  atomic.Int64
}

func (s *speaker) open(ctx context.Context) error {
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
		if _, err := s.post(ctx, "/mcp", message); err != nil {
			return err
		}
	}
	s.lastID.Store(1)
	return nil
}

// calls makes n calls, AtATime at a time.
func (s *speaker) calls(ctx context.Context, n int) (done Called) {
	var left atomic.Int64
	left.Store(int64(n))
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for range s.AtATime {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				err := s.call(ctx)
				mu.Lock()
				if err == nil {
					done.OK++
				} else if done.Failed++; done.Failed == 1 {
					done.Problem = err.Error()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	done.WallS = time.Since(began).Seconds()
	return done
}

func (s *speaker) call(ctx context.Context) error {
	answer, err := s.post(ctx, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{"a":7}}}`, s.lastID.Add(1), echoName))
	if err == nil && !strings.Contains(answer, `"structuredContent":{"a":7}`) {
		err = errors.New(answer)
	}
	return err
}

// work serves calls of the pool until in ends.
func (s *speaker) work(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in) // its end is what counts
		stop()
	}()
	errs := make(chan error, s.AtATime)
	var all sync.WaitGroup
	for i := range s.AtATime {
		all.Go(func() {
			answers := ""
			for ctx.Err() == nil {
				var err error
				if answers, err = s.serve(ctx, i, answers); err != nil && ctx.Err() == nil {
					errs <- err
					return
				}
			}
		})
	}
	fmt.Fprintln(out, "ready")
	all.Wait()
	close(errs)
	return <-errs
}

// serve answers a call of the pool and takes the next, which it answers with what it was given.
func (s *speaker) serve(ctx context.Context, worker int, answers string) (next string, err error) {
	raw, err := s.post(ctx, "/api/v1/workers/"+workerPool+"/poll", fmt.Sprintf(`{"worker":"w%d","answers":[%s]}`, worker, answers))
	if err != nil || raw == "" { // nothing to do
		return "", err
	}
	var call struct {
		ID    string          `json:"id"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal([]byte(raw), &call); err != nil {
		return "", fmt.Errorf("answer of the pool %q: %w", raw, err)
	}
	return `{"id":"` + call.ID + `","result":` + string(call.Input) + `}`, nil
}

func (s *speaker) post(ctx context.Context, path, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+s.Key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if s.session != "" {
		r.Header.Set("Mcp-Session-Id", s.session)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return "", fmt.Errorf("%s: %s %s", path, resp.Status, answer)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" && s.session == "" {
		s.session = id
	}
	return string(answer), nil
}
