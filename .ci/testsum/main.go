// Command testsum reads `go test -json` on standard input, prints the output of what failed, a line per package,
// the reasons of skipped tests with their counts, and last `N passed, N failed, N skipped`. Exit code 1 when a
// test or package failed, or when skips are forbidden (PAVE_FORBID_SKIPS=1) and a test was skipped for another
// reason than recorded data that is not there.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// recordedData is the marker of the one kind of skip that is always allowed: third-party recordings are not
// part of the project.
const recordedData = "recorded data not present"

type summary struct {
	passed, failed, skipped int
	skips                   map[string]int // reason -> count
	forbidden               int
	output                  map[string][]string // package/test -> lines
}

func main() {
	s := summary{skips: map[string]int{}, output: map[string][]string{}}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 64<<20)
	broken := false
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text()) // the build's own messages
			continue
		}
		broken = s.add(e) || broken
	}
	s.report()
	if broken || s.failed > 0 || s.forbidden > 0 {
		os.Exit(1)
	}
}

// add counts one event and reports whether a package or build failed.
func (s *summary) add(e event) bool {
	key := e.Package + "/" + e.Test
	switch e.Action {
	case "output":
		s.output[key] = append(s.output[key], e.Output)
	case "build-output":
		fmt.Print(e.Output)
	case "build-fail":
		return true
	case "pass":
		if e.Test != "" {
			s.passed++
		} else {
			fmt.Printf("ok   %-55s %6.1f s\n", e.Package, e.Elapsed)
		}
		delete(s.output, key)
	case "skip":
		if e.Test != "" {
			s.skip(s.output[key])
		}
		delete(s.output, key)
	case "fail":
		fmt.Print(strings.Join(s.output[key], ""))
		if e.Test != "" {
			s.failed++
		} else {
			fmt.Printf("FAIL %-55s %6.1f s\n", e.Package, e.Elapsed)
			return true
		}
	}
	return false
}

func (s *summary) skip(lines []string) {
	s.skipped++
	reason := "no reason given"
	for _, l := range lines {
		t := strings.TrimSpace(l)
		if t == "" || strings.HasPrefix(t, "===") || strings.HasPrefix(t, "--- SKIP") {
			continue
		}
		if _, after, ok := strings.Cut(t, ".go:"); ok { // file_test.go:12: reason
			if _, r, ok := strings.Cut(after, ": "); ok {
				t = r
			}
		}
		reason = t
	}
	s.skips[reason]++
	if !strings.Contains(reason, recordedData) && os.Getenv("PAVE_FORBID_SKIPS") == "1" {
		s.forbidden++
	}
}

func (s *summary) report() {
	reasons := make([]string, 0, len(s.skips))
	for r := range s.skips {
		reasons = append(reasons, r)
	}
	sort.Strings(reasons)
	for _, r := range reasons {
		fmt.Printf("skipped %4d: %s\n", s.skips[r], r)
	}
	if s.forbidden > 0 {
		fmt.Printf("%d skipped tests are not allowed here\n", s.forbidden)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
}
