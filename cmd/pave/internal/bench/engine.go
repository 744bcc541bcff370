package bench

import (
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
	c, err := startChild(cmd)
	if err != nil {
		return nil, fmt.Errorf("start ClickHouse: %w; give --dsn, or fetch its library and build its server: make chdb bin/chserver", err)
	}
	e := &engineServer{pid: cmd.Process.Pid, stop: c.end}
	if !c.ready(func(line string) bool {
		i := strings.Index(line, "http")
		if i >= 0 {
			e.dsn = strings.TrimSpace(line[i:])
		}
		return i >= 0
	}) {
		return nil, errors.Join(errors.New("the ClickHouse server did not start"), c.end())
	}
	return e, nil
}

// cpuOf is the CPU that a started server used during f, 0 when there is none.
func (e *engineServer) cpuOf(f func() error) (time.Duration, error) {
	if e.pid == 0 {
		return 0, f()
	}
	return cpuOf(e.pid, f)
}
