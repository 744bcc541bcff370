package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a process that the demo started and ends.
type child struct {
	name string
	cmd  *exec.Cmd
	addr string // what its ready line said
	log  *tail
	done chan error
}

var readyLine = regexp.MustCompile(`^(?:[a-z]+: serving on )?(https?://[0-9.]+:[0-9]+\S*)`)

// start runs a program and waits for its ready line, which holds its address. The child gets a pipe as
// standard input, so that one which watches it ends with the demo even when the demo is killed.
func start(ctx context.Context, name, program string, args ...string) (*child, error) {
	cmd := exec.Command(program, args...)
	c := &child{name: name, cmd: cmd, log: &tail{}, done: make(chan error, 1)}
	cmd.Stderr = c.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches the demo, which stops its children in order
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case ready <- m[1]:
				default:
				}
			}
		}
		c.done <- cmd.Wait()
	}()
	select {
	case c.addr = <-ready:
		return c, nil
	case err := <-c.done:
		return nil, fmt.Errorf("%s ended before it was ready (%w):\n%s", name, err, c.log)
	case <-time.After(30 * time.Second):
		c.stop()
		return nil, fmt.Errorf("%s was not ready within 30 s:\n%s", name, c.log)
	case <-ctx.Done():
		c.stop()
		return nil, ctx.Err()
	}
}

// stop ends the child: politely, and after ten seconds by force. It returns what the child said if it failed.
func (c *child) stop() error {
	c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-c.done:
		if err != nil {
			return fmt.Errorf("%s: %w:\n%s", c.name, err, c.log)
		}
		return nil
	case <-time.After(10 * time.Second):
		c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("%s did not stop within 10 s", c.name)
	}
}

// tail keeps the last 16 KiB written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - 16<<10; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// cli runs pave's own command line on the demo's data directory, as a person would.
type cli struct {
	program, dataDir string
	keys             map[string]string // by role
	out              io.Writer         // where shown commands and their output go
}

// show prints who gives the command, the command and its output. Role "" is who installed pave.
func (c *cli) show(ctx context.Context, role string, args ...string) error {
	fmt.Fprintf(c.out, "\n%s$ pave %s\n", role, commandLine(args))
	b, err := c.quiet(ctx, c.keys[role], args...)
	c.out.Write(b)
	return err
}

// commandLine writes arguments as a person would type them.
func commandLine(args []string) string {
	typed := slices.Clone(args)
	for i, arg := range typed {
		if strings.Contains(arg, " ") {
			typed[i] = strconv.Quote(arg)
		}
	}
	return strings.Join(typed, " ")
}

// quiet returns the command's standard output. key "" uses the data directory's admin key.
func (c *cli) quiet(ctx context.Context, key string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Env = append(os.Environ(), "PAVE_DATA="+c.dataDir, "PAVE_KEY="+key, "PAVE_SERVER=", "NO_COLOR=1")
	var errText tail
	cmd.Stderr = &errText
	b, err := cmd.Output()
	if err != nil {
		return b, errors.Join(fmt.Errorf("pave %s: %w", strings.Join(args, " "), err), errors.New(errText.String()))
	}
	return b, nil
}
