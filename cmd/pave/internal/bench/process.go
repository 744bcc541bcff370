package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Process measures the binary: its size, the time from start to the ready line on an empty data directory, and
// its memory two seconds later.
type Process struct{}

// ProcessResult is `pave bench process`.
type ProcessResult struct {
	Head
	BinaryBytes int64   `json:"binary_bytes"`
	StartWallMS float64 `json:"start_wall_ms"` // median of five starts, the first on an empty directory
	IdleRSSMB   float64 `json:"idle_rss_mb"`
}

// Run implements Runner.
func (Process) Run(ctx context.Context, env Env) (any, error) {
	st, err := os.Stat(env.Program)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pave-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	res := ProcessResult{Head: env.head("process"), BinaryBytes: st.Size()}
	var starts []float64
	for i := range 5 {
		env.note("start %d of 5", i+1)
		took, rss, err := oneStart(ctx, env.Program, dir, i == 4)
		if err != nil {
			return nil, err
		}
		starts = append(starts, float64(took.Microseconds())/1000)
		res.IdleRSSMB = rss
	}
	slices.Sort(starts)
	res.StartWallMS = starts[2]
	return res, nil
}

// oneStart starts serve, waits for its ready line and ends it; idle asks for its memory after two seconds.
func oneStart(ctx context.Context, program, dir string, idle bool) (took time.Duration, rssMB float64, err error) {
	cmd := exec.CommandContext(ctx, program, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--otlp-listen", "", "--otlp-grpc-listen", "")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		err = errors.Join(err, cmd.Wait())
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "serving on") {
			took = time.Since(began)
			break
		}
	}
	if took == 0 {
		return 0, 0, errors.New("serve ended without its ready line")
	}
	if idle {
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
		rssMB, err = residentMB(cmd.Process.Pid)
	}
	return took, rssMB, err
}

// residentMB reads the resident set of a process where /proc has it.
func residentMB(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory of the process: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kb); n == 1 {
			return kb / 1024, nil
		}
	}
	return 0, errors.New("memory of the process: no VmRSS")
}
