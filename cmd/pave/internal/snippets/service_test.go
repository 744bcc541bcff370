// Package snippets runs the snippets of pave/api/snippets against the real service.
package snippets

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/api/gen"
	"pave/cmd/pave/internal/app"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a running pave with a client of its administrator.
type service struct {
	t       *testing.T
	address string
	client  *gen.ClientWithResponses
	http    *http.Client
	stop    func() // once
}

// serve starts the service on a free port and stops it with the test.
func serve(t *testing.T, change func(*app.Options)) *service {
	t.Helper()
	opts := app.Options{DataDir: t.TempDir(), LocalPrincipal: "local:tester", Solo: true, Version: "test"}
	if change != nil {
		change(&opts)
	}
	a, err := app.Open(t.Context(), opts)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- a.Serve(ctx, app.ServeOptions{Listen: "127.0.0.1:0", Drain: 5 * time.Second, Ready: func(at string) { ready <- at }})
	}()
	s := &service{t: t, http: &http.Client{Transport: &http.Transport{}}}
	select {
	case s.address = <-ready:
	case err := <-ended:
		require.NoError(t, err)
	}
	s.stop = sync.OnceFunc(func() {
		s.http.CloseIdleConnections()
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, a.Close())
		s.http.CloseIdleConnections()
	})
	t.Cleanup(s.stop)
	admin, err := app.AdminKey(opts.DataDir)
	require.NoError(t, err)
	s.client = s.as(admin)
	return s
}

// as is a client with a key.
func (s *service) as(key string) *gen.ClientWithResponses {
	c, err := gen.NewClientWithResponses(s.address, gen.WithHTTPClient(s.http), gen.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
	require.NoError(s.t, err)
	return c
}

// key makes a key.
func (s *service) key(principal string, scopes ...gen.Scope) string {
	s.t.Helper()
	made, err := s.client.CreateAPIKeyWithResponse(s.t.Context(), gen.APIKeyCreate{Principal: principal, Scopes: scopes})
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusCreated, made.StatusCode(), string(made.Body))
	return made.JSON201.Secret
}

// tools applies a tool file.
func (s *service) tools(file string) {
	s.t.Helper()
	done, err := s.client.ApplyToolsWithBodyWithResponse(s.t.Context(), "application/yaml", strings.NewReader(file))
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, done.StatusCode(), string(done.Body))
}

// activate brings a flow into service: proposed, approved as often as the policy wants, promoted.
func (s *service) activate(flow string) {
	s.t.Helper()
	s.rollOut(flow, 0)
}

// rollOut brings a flow into service for a share of its callers, 0 for all.
func (s *service) rollOut(flow string, share float64) *gen.FlowVersion {
	s.t.Helper()
	ctx := s.t.Context()
	made, err := s.client.SubmitProposalWithResponse(ctx, nil, gen.ProposalCreate{Flow: json.RawMessage(flow)})
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusCreated, made.StatusCode(), string(made.Body))
	etag := made.HTTPResponse.Header.Get("ETag")
	for i := range made.JSON201.Needs {
		reviewer := s.as(s.key(fmt.Sprintf("person:reviewer-%d", i), "review", "read"))
		done, err := reviewer.ReviewProposalWithResponse(ctx, made.JSON201.ID, &gen.ReviewProposalParams{IfMatch: etag},
			gen.ReviewCreate{Verdict: gen.VerdictApprove, Digest: made.JSON201.Digest})
		require.NoError(s.t, err)
		require.Equal(s.t, http.StatusOK, done.StatusCode(), string(done.Body))
		etag = done.HTTPResponse.Header.Get("ETag")
	}
	done, err := s.client.PromoteProposalWithResponse(ctx, made.JSON201.ID, &gen.PromoteProposalParams{IfMatch: etag}, gen.PromoteRequest{Rollout: share})
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, done.StatusCode(), string(done.Body))
	return done.JSON200
}

// run runs a flow to its end.
func (s *service) run(flow, input string) *gen.Run {
	s.t.Helper()
	done, err := s.client.RunFlowWithResponse(s.t.Context(), flow, &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(input)})
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, done.StatusCode(), string(done.Body))
	return done.JSON200
}

// folder is where the snippets are.
func folder(t *testing.T, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "..", "..", "api", "snippets"}, elem...)...))
	require.NoError(t, err)
	return path
}

// program finds an interpreter, or skips.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: this snippet was not run", name)
	}
	return path
}

// nodeModules installs the pinned packages of the lane once, in the user's cache, and returns their folder.
var nodeModules = sync.OnceValues(func() (string, error) {
	lane, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "api", "snippets", "lane"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "pave", "snippets")
	lock, err := os.ReadFile(filepath.Join(lane, "package-lock.json"))
	if err != nil {
		return "", err
	}
	have, _ := os.ReadFile(filepath.Join(dir, "installed"))
	if bytes.Equal(have, lock) {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, os.DirFS(lane)); err != nil && !os.IsExist(err) {
		return "", err
	}
	out, err := exec.Command("npm", "ci", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return dir, os.WriteFile(filepath.Join(dir, "installed"), lock, 0o644)
})

// node is the command that runs a TypeScript file with the lane's packages, or skips.
func node(t *testing.T) (dir string, args []string) {
	t.Helper()
	name := program(t, "node")
	program(t, "npm")
	dir, err := nodeModules()
	if err != nil {
		t.Skipf("the packages of the lane cannot be installed, so this snippet was not run: %v", err)
	}
	return dir, []string{name, "--import", "file://" + filepath.Join(dir, "node_modules", "tsx", "dist", "loader.mjs")}
}

// start runs a program until the test ends. What it said is shown when the test fails.
func start(t *testing.T, dir string, args ...string) (output func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("%s said:\n%s", strings.Join(args, " "), said.String())
		}
	})
	return said.String
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, raw, 0o600))
}
