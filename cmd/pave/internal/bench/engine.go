package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// engineServer is where events are stored.
type engineServer struct {
	dsn  string // "" for SQLite
	pid  int    // of the ClickHouse server that was started, 0 for none
	stop func() error
}

// startEngine makes the engine of that name ready: SQLite needs nothing, ClickHouse a server, which is started with its data
// in dir unless dsn names one.
func startEngine(ctx context.Context, env Env, name, dsn, dir string) (*engineServer, error) {
	nothing := func() error { return nil }
	switch {
	case name == "sqlite":
		return &engineServer{stop: nothing}, nil
	case name != "clickhouse":
		return nil, fmt.Errorf("unknown engine %q: sqlite or clickhouse", name)
	case dsn != "":
		return &engineServer{dsn: dsn, stop: nothing}, nil
	case env.CHServer == "":
		return nil, errors.New("ClickHouse needs --dsn, or --chserver with the library fetched: make chdb bin/chserver")
	}
	cmd := exec.CommandContext(ctx, env.CHServer, "--data", filepath.Join(dir, "clickhouse"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() error { return errors.Join(in.Close(), cmd.Wait()) } // it ends when its input closes
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if i := strings.Index(lines.Text(), "http"); i >= 0 {
			go func() { // keep the pipe empty
				for lines.Scan() {
				}
			}()
			return &engineServer{dsn: strings.TrimSpace(lines.Text()[i:]), pid: cmd.Process.Pid, stop: stop}, nil
		}
	}
	return nil, errors.Join(errors.New("the ClickHouse server did not start"), stop())
}

// cpuOf is the CPU that a started server used during f, 0 when there is none.
func (e *engineServer) cpuOf(f func() error) (time.Duration, error) {
	if e.pid == 0 {
		return 0, f()
	}
	return cpuOf(e.pid, f)
}
