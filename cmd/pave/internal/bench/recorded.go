package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pave/analyzer/replay"
	"pave/ingest"
	"pave/ingest/transcript"
)

// sidecarName is the file beside recorded sessions that holds their totals.
const sidecarName = "sessions.jsonl"

// domain is one file of recorded sessions: agents with one set of tools.
type domain struct {
	name     string
	sessions []recordedSession
}

// recordedSession is a session with the data set and the task that it belongs to.
type recordedSession struct {
	*ingest.Session
	set, task string
	ready     *replay.Session // to be scored
}

// readDomains imports and assembles the recorded sessions of a folder, a domain for each file.
func readDomains(ctx context.Context, env Env, dir string) ([]domain, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return filepath.Base(p) == sidecarName })
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no .jsonl files of recorded calls", dir)
	}
	var out []domain
	for _, path := range paths {
		d := domain{name: strings.TrimSuffix(filepath.Base(path), ".jsonl")}
		env.note("reading %s", d.name)
		labels, err := readLabels(path)
		if err != nil {
			return nil, err
		}
		var events []ingest.Event
		report, err := transcript.Import(ctx, []string{path}, transcript.Options{}, func(batch []ingest.Event) error {
			events = append(events, batch...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, r := range report.Rejected {
			env.note("%s:%d: %s", r.File, r.Line, r.Message)
		}
		for _, s := range ingest.AssembleAll(ingest.DefaultTenant, events, ingest.AssembleOptions{}) {
			l := labels[s.ID]
			d.sessions = append(d.sessions, recordedSession{s, l.Dataset, l.TaskID, replay.NewSession(s)})
		}
		out = append(out, d)
	}
	return out, nil
}

type label struct {
	Dataset string `json:"dataset"`
	TaskID  string `json:"task_id"`
}

// readLabels tells the data set and the task of each session of a file. A session without a task is one of its own.
func readLabels(path string) (labels map[string]label, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	labels = map[string]label{}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		var record struct {
			SessionID string `json:"session_id"`
			label
		}
		if json.Unmarshal(line, &record) == nil && record.SessionID != "" { // the importer reports lines that are none
			if record.TaskID == "" {
				record.TaskID = record.SessionID
			}
			labels[record.SessionID] = record.label
		}
		if errors.Is(err, io.EOF) {
			return labels, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
