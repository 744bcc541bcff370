package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pave/analyzer/replay"
	"pave/flows"
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
		return nil, flows.NewError(flows.CodeInvalid, dir+" has no .jsonl files of recorded calls")
	}
	totals := filepath.Join(dir, sidecarName)
	var out []domain
	for _, path := range paths {
		d := domain{name: strings.TrimSuffix(filepath.Base(path), ".jsonl")}
		env.note("reading %s", d.name)
		labels := map[string]label{}
		if err := readLabels(labels, path, d.name); err != nil {
			return nil, err
		}
		if err := readLabels(labels, totals, d.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
			// A session without a task is one of its own; one without a data set belongs to that of its file.
			ready := replay.NewSession(s)
			ready.Lasted(time.Duration(l.Duration * float64(time.Second)))
			d.sessions = append(d.sessions, recordedSession{s, cmp.Or(l.Dataset, d.name), cmp.Or(l.TaskID, s.ID), ready})
		}
		out = append(out, d)
	}
	return out, nil
}

// label is the data set and the task of a session, as its calls name them or the line of its totals does, and how long it
// lasted.
type label struct {
	Dataset  string  `json:"dataset"`
	TaskID   string  `json:"task_id"`
	Duration float64 `json:"duration"` // seconds
}

// readLabels adds what a file says of the sessions of a domain to what is not known of them yet.
func readLabels(labels map[string]label, path, domain string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		var record struct {
			SessionID string `json:"session_id"`
			File      string `json:"file"`
			label
		}
		// The importer reports lines that are no records.
		if json.Unmarshal(line, &record) == nil && record.SessionID != "" && (record.File == "" || record.File == domain) {
			l := labels[record.SessionID]
			labels[record.SessionID] = label{cmp.Or(l.Dataset, record.Dataset), cmp.Or(l.TaskID, record.TaskID), cmp.Or(l.Duration, record.Duration)}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
