package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKilledServeLosesAndDoublesNothing kills serve at PAVE_KILLS random moments, 50 without it, while four writers record calls. Writers
// send a request again until it is acknowledged, as OTLP exporters do. In the end every call that was ever
// acknowledged is there, and each call once, however often it was sent.
func TestKilledServeLosesAndDoublesNothing(t *testing.T) {
	const (
		writers, perRequest = 4, 50
		sessionsPerRequest  = 5
	)
	kills := 50
	if n, err := strconv.Atoi(os.Getenv("PAVE_KILLS")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	program := buildPave(t)
	data := filepath.Join(dir, "data")
	s := &killable{t: t, program: program, data: data}
	s.start()
	key := readAdminKey(t, data)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var acknowledged [writers]atomic.Int64 // requests, numbered from 0
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := int64(0); ctx.Err() == nil; n++ {
				body := crashBody(w, n, perRequest, sessionsPerRequest)
				for !s.post(ctx, key, body) {
					if ctx.Err() != nil {
						return
					}
				}
				acknowledged[w].Store(n + 1)
			}
		})
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for range kills {
		time.Sleep(time.Duration(10+r.IntN(250)) * time.Millisecond) // the moment of the kill is the random input here
		s.kill()
		s.start()
	}
	stop()
	wg.Wait()

	total := int64(0)
	for w := range writers {
		n := acknowledged[w].Load()
		total += n
		require.Positive(t, n, "writer %d got nothing acknowledged", w)
	}
	t.Logf("%d kills, %d acknowledged requests of %d calls", kills, total, perRequest)
	s.check(key, &acknowledged, perRequest, sessionsPerRequest)
	s.kill()
}

// crashBody is request n of writer w: calls with ids of their own, spread over a few sessions.
func crashBody(w int, n int64, calls, sessions int) []byte {
	var b bytes.Buffer
	for i := range calls {
		fmt.Fprintf(&b, `{"event":"tool_call","session_id":"w%d-r%d-s%d","call_id":"c%d","tool":"get_order","args":{"order_id":"o-%d-%d"},"result":{"ok":true},"status":"ok"}`+"\n", w, n, i%sessions, i, n, i)
	}
	return b.Bytes()
}

// buildPave builds the real program, once for all tests.
func buildPave(t *testing.T) (program string) {
	program, err := builtPave()
	require.NoError(t, err)
	return program
}

var builtPave = sync.OnceValues(func() (program string, err error) {
	dir, err := os.MkdirTemp("", "pave-test-")
	if err != nil {
		return "", err
	}
	builtDir.Store(dir)
	program = filepath.Join(dir, "pave")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

// builtDir is the folder of the built program, removed when all tests are over.
var builtDir atomic.Value

// killable is a serve process that is killed and started again on one data directory.
type killable struct {
	t             *testing.T
	program, data string
	flags         []string
	log           *os.File // its standard error; nil keeps it for what goes wrong at the start
	cmd           *exec.Cmd
	addr          atomic.Value
}

func (s *killable) start() {
	s.cmd = exec.Command(s.program, append([]string{"serve", "--data-dir", s.data, "--listen", "127.0.0.1:0", "--otlp-listen", "", "--otlp-grpc-listen", "",
		"--rate-requests", "0", "--rate-ingest", "0"}, s.flags...)...)
	var errText bytes.Buffer
	s.cmd.Stderr = &errText
	if s.log != nil {
		s.cmd.Stderr = s.log
	}
	out, err := s.cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "serving on "); ok {
			addr, _, _ := strings.Cut(rest, " ")
			s.addr.Store(addr)
			return
		}
	}
	s.cmd.Wait()
	s.t.Fatalf("serve did not start again: %s", errText.String())
}

func (s *killable) kill() {
	require.NoError(s.t, s.cmd.Process.Kill())
	s.cmd.Wait()
}

// post sends one request and says whether it was acknowledged.
func (s *killable) post(ctx context.Context, key string, body []byte) bool {
	req, err := http.NewRequestWithContext(ctx, "POST", s.addr.Load().(string)+"/api/v1/tool-calls", bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}

// check reads every acknowledged session back and compares the ids of its calls.
func (s *killable) check(key string, acknowledged *[4]atomic.Int64, perRequest, sessions int) {
	for w := range acknowledged {
		for n := range acknowledged[w].Load() {
			for k := range sessions {
				id := fmt.Sprintf("w%d-r%d-s%d", w, n, k)
				var want, got []string
				for i := k; i < perRequest; i += sessions {
					want = append(want, fmt.Sprint("c", i))
				}
				for _, run := range s.session(key, id).Runs {
					for _, c := range run.Calls {
						got = append(got, c.CallID)
					}
				}
				require.ElementsMatch(s.t, want, got, "session %s", id)
			}
		}
	}
}

type crashSession struct {
	Runs []struct {
		Calls []struct {
			CallID string `json:"call_id"`
		} `json:"calls"`
	} `json:"runs"`
}

func (s *killable) session(key, id string) crashSession {
	req, err := http.NewRequest("GET", s.addr.Load().(string)+"/api/v1/sessions/"+id, nil)
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, resp.StatusCode, "session %s: %s", id, body)
	var out crashSession
	require.NoError(s.t, json.Unmarshal(body, &out))
	return out
}

// readAdminKey reads the key that the first start wrote.
func readAdminKey(t *testing.T, data string) string {
	b, err := os.ReadFile(filepath.Join(data, "admin.key"))
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}
