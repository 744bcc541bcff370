// Package bench is `pave bench`: measurements of pave by itself. Each bench returns one object with stable keys;
// times are CPU time of this process (user + system) unless a key says wall, because machines are shared and
// CPU time repeats better.
package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"pave/flows"
)

// Head is the beginning of every result.
type Head struct {
	Bench   string `json:"bench"`
	Version string `json:"version"`
	Go      string `json:"go"`
	CPUs    int    `json:"cpus"`
}

// Env is what a bench works with.
type Env struct {
	Version  string
	Program  string    // the pave binary, for benches of whole processes
	CHServer string    // program that serves the ClickHouse library, "" when none
	Progress io.Writer // notes for people, never part of the result
}

func (e Env) head(name string) Head {
	return Head{Bench: name, Version: e.Version, Go: runtime.Version(), CPUs: runtime.NumCPU()}
}

func (e Env) note(format string, args ...any) { fmt.Fprintf(e.Progress, format+"\n", args...) }

// cpu is the user and system time that this process has used so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // cannot fail for RUSAGE_SELF
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure returns the CPU and wall time of f.
func measure(f func() error) (used, wall time.Duration, err error) {
	c, w := cpu(), time.Now()
	err = f()
	return cpu() - c, time.Since(w), err
}

// peakRSS is the largest resident set of this process so far, in MiB.
func peakRSS() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Maxrss) / 1024 // Linux counts in KiB
}

// MemoryMB is the memory of a process before and after work, in MiB.
type MemoryMB struct {
	RSSMBStart  float64 `json:"rss_mb_start"`
	RSSMBEnd    float64 `json:"rss_mb_end"`
	HeapMBStart float64 `json:"heap_mb_start"`
	HeapMBEnd   float64 `json:"heap_mb_end"`
}

// atLeast refuses a size, named as its flag is, at which a bench would measure nothing.
func atLeast(flag string, n, least int) error {
	if n >= least {
		return nil
	}
	return flows.NewError(flows.CodeInvalid, fmt.Sprintf("%s is %d; give a number from %d", flag, n, least))
}

// Runner is one bench.
type Runner interface {
	Run(ctx context.Context, env Env) (any, error)
}

// resetPeakRSS makes the peak of the resident set start anew and returns what reads it, in MiB. Where the system cannot,
// the peak is that of the whole process.
func resetPeakRSS() (peak func() float64) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return peakRSS
	}
	return func() float64 {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return peakRSS()
		}
		for line := range strings.Lines(string(status)) {
			var kib float64
			if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
				return kib / 1024
			}
		}
		return peakRSS()
	}
}
