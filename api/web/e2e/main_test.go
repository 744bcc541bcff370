//go:build e2e

// Package e2e drives the web UI in a real browser against the real `pave serve`, filled by the demo. It is a lane of
// its own (make e2e): it needs chromium and a built binary, whose path is in PAVE_BIN or which it builds.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// stage is what all tests share: the binary, the demo's data and one browser.
var stage struct {
	dir     string
	bin     string
	data    string // of the demo
	desk    string // address of the demo's tools
	browser context.Context
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	chrome := findChrome()
	if chrome == "" {
		if os.Getenv("PAVE_FORBID_SKIPS") == "1" {
			fmt.Println("the browser tests are required here and no chromium was found")
			return 1
		}
		fmt.Println("SKIPPED browser tests: no chromium; to enable them: apt-get install chromium")
		return 0
	}
	var err error
	if stage.dir, err = os.MkdirTemp("", "pave-e2e-"); err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(stage.dir)
	if err := prepare(); err != nil {
		fmt.Println("prepare:", err)
		return 1
	}
	desk, addr, err := start("demo", "desk", "--listen", strings.TrimPrefix(stage.desk, "http://"), "--seed", "20261130")
	if err != nil {
		fmt.Println("desk:", err)
		return 1
	}
	defer desk()
	stage.desk = addr
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chrome), chromedp.NoSandbox, chromedp.WindowSize(1440, 900))
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	defer stopAlloc()
	browser, stopBrowser := chromedp.NewContext(alloc)
	defer stopBrowser()
	if err := chromedp.Do(browser); err != nil {
		fmt.Println("chromium:", err)
		return 1
	}
	stage.browser = browser
	return m.Run()
}

func findChrome() string {
	for _, name := range []string{os.Getenv("PAVE_CHROME"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
}

var (
	keptLine = regexp.MustCompile(`data kept in (\S+)`)
	deskURL  = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	onLine   = regexp.MustCompile(`serving on (http://\S+)`)
)

// prepare builds the binary if need be and plays the demo once.
func prepare() error {
	if stage.bin = os.Getenv("PAVE_BIN"); stage.bin == "" {
		stage.bin = filepath.Join(stage.dir, "pave")
		build := exec.Command("go", "build", "-o", stage.bin, "pave/cmd/pave")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	demo := exec.Command(stage.bin, "demo", "--keep")
	demo.Env = append(os.Environ(), "TMPDIR="+stage.dir)
	out, err := demo.CombinedOutput()
	kept := keptLine.FindSubmatch(out)
	if err != nil || kept == nil {
		return fmt.Errorf("demo: %w\n%s", err, out)
	}
	tools, err := os.ReadFile(filepath.Join(string(kept[1]), "tools.yaml"))
	if err != nil {
		return err
	}
	stage.data = filepath.Join(string(kept[1]), "data")
	if stage.desk = deskURL.FindString(string(tools)); stage.desk == "" {
		return errors.New("the demo's tool file names no address")
	}
	return nil
}

// start runs the binary until it says on which address it serves.
func start(args ...string) (stop func(), addr string, err error) {
	cmd := exec.Command(stage.bin, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if _, err := cmd.StdinPipe(); err != nil { // a process that watches its input ends with this one
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := onLine.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
		close(found)
	}()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	select {
	case addr, ok := <-found:
		if !ok {
			_ = cmd.Wait()
			return nil, "", fmt.Errorf("pave %s ended:\n%s", strings.Join(args, " "), said.String())
		}
		return stop, addr, nil
	case <-time.After(30 * time.Second):
		stop()
		return nil, "", fmt.Errorf("pave %s was not ready in time:\n%s", strings.Join(args, " "), said.String())
	}
}

// service is one `pave serve` of a test.
type service struct {
	t     *testing.T
	url   string
	dir   string
	admin string
	stop  func()
}

// serve starts the service over a copy of the demo's data, or over nothing.
func serve(t *testing.T, withData bool, flags ...string) *service {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if withData {
		require.NoError(t, os.CopyFS(dir, os.DirFS(stage.data)))
		require.NoError(t, os.Chmod(filepath.Join(dir, "admin.key"), 0o600))
	}
	args := append([]string{"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--otlp-listen", "off", "--otlp-grpc-listen", "off",
		"--egress-allow", strings.TrimPrefix(stage.desk, "http://")}, flags...)
	stop, url, err := start(args...)
	require.NoError(t, err)
	t.Cleanup(stop)
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	require.NoError(t, err)
	return &service{t: t, url: url, dir: dir, admin: strings.TrimSpace(string(key)), stop: stop}
}

// call sends a request with the admin's key, for another principal when as is given, and decodes the answer.
func (s *service) call(method, path, as string, body, into any, headers ...string) {
	s.t.Helper()
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		require.NoError(s.t, err)
		in = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, in)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+s.admin)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if as != "" {
		r.Header.Set("Pave-As", as)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Less(s.t, resp.StatusCode, 300, "%s %s: %s", method, path, raw)
	if into != nil {
		require.NoError(s.t, json.Unmarshal(raw, into), "%s", raw)
	}
}

// key makes a key of a principal.
func (s *service) key(principal string, scopes ...string) string {
	s.t.Helper()
	var made struct{ Secret string }
	s.call("POST", "/api/v1/api-keys", "", map[string]any{"principal": principal, "scopes": scopes}, &made)
	return made.Secret
}

// page is a tab of the browser with its own cookies. What goes wrong in it is a failure of the test.
type page struct {
	t      *testing.T
	ctx    context.Context
	s      *service
	faults []string
}

// open opens a tab and signs in with a key; "" stays signed out.
func (s *service) open(key string) *page {
	s.t.Helper()
	ctx, cancel := chromedp.NewContext(stage.browser, chromedp.WithNewBrowserContext())
	s.t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	s.t.Cleanup(stop)
	p := &page{t: s.t, ctx: ctx, s: s}
	p.do(chromedp.EmulateViewport(1440, 900))
	var listening sync.WaitGroup
	listening.Go(p.listen)
	s.t.Cleanup(func() {
		cancel()
		listening.Wait()
		require.Empty(s.t, p.faults, "the browser complained")
	})
	if key != "" {
		p.visit("/")
		p.do(chromedp.WaitVisible("input[type=password]"), chromedp.SendKeys("input[type=password]", key+"\r"), chromedp.WaitVisible("nav[aria-label=Pages]"))
	}
	return p
}

// listen collects uncaught errors, console errors and broken policies. A request that is answered with an error is the
// page's to show, and no fault.
func (p *page) listen() {
	for m, err := range chromedp.Console(p.ctx) {
		if err != nil {
			return
		}
		if m.IsException() || m.Type == chromedp.ConsoleError && m.Source != "network" {
			p.faults = append(p.faults, m.Text)
		}
	}
}

// do runs steps; what fails is reported with what the page shows at that moment.
func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.failed(err)
	}
}

// eval evaluates an expression in the page.
func eval[T any](p *page, js string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](js))
	if err != nil {
		p.failed(fmt.Errorf("%s: %w", js, err))
	}
	return v
}

// wait evaluates a promise in the page.
func wait[T any](p *page, js string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		p.failed(fmt.Errorf("%s: %w", js, err))
	}
	return v
}

// picture is what the tab shows, as PNG.
func (p *page) picture() []byte {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.failed(err)
	}
	return png
}

func (p *page) failed(err error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText.slice(0, 3000)"))
	if dir := os.Getenv("PAVE_SHOTS"); dir != "" {
		if png, shot := chromedp.Run(ctx, chromedp.CaptureScreenshot()); shot == nil {
			_ = os.WriteFile(filepath.Join(dir, "failed-"+strings.ReplaceAll(p.t.Name(), "/", "-")+".png"), png, 0o600)
		}
	}
	p.t.Fatalf("%v\nthe page says:\n%s", err, text)
}

// visit goes to a path of the application.
func (p *page) visit(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.s.url + "/ui" + path))
}

// until waits for an expression to become true.
func (p *page) until(js string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](js, chromedp.WithPollingTimeout(10*time.Second))); err != nil {
		p.failed(fmt.Errorf("waiting for %s: %w", js, err))
	}
}

// settled waits until nothing is loading.
func (p *page) settled() {
	p.t.Helper()
	p.until(`Boolean(document.querySelector('main') && !document.querySelector('.loading') && document.readyState === 'complete')`)
}

// sees waits until the page's text holds all of the texts.
func (p *page) sees(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.until(fmt.Sprintf(`document.body.innerText.toLowerCase().includes(%q)`, strings.ToLower(text)))
	}
}

// dialog waits for an open dialog.
func (p *page) dialog() {
	p.t.Helper()
	p.until(`Boolean(document.querySelector('dialog[open]'))`)
}

// press sends keys to wherever the focus is.
func (p *page) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// shortcut presses and lets go of a letter key as a keyboard does: the letter comes only where the page lets it.
func (p *page) shortcut(letter string) {
	p.t.Helper()
	code := int64(strings.ToUpper(letter)[0])
	p.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			key := input.DispatchKeyEventParams{Type: kind, Key: letter, Code: "Key" + strings.ToUpper(letter), WindowsVirtualKeyCode: code}
			if kind == input.DispatchKeyEventTypeKeyDown {
				key.Text = letter
			}
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, key); err != nil {
				return err
			}
		}
		return nil
	}))
}

// click clicks the first visible element of the kind that has this text.
func (p *page) click(tag, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && !e.disabled && e.innerText.includes(%q))`, tag, text))
	p.do(chromedp.Click(fmt.Sprintf(`//%s[contains(., %q) and not(@disabled)]`, tag, text), chromedp.NodeVisible))
}
