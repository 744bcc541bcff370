package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"

	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/app"
	"pave/cmd/pave/internal/output"
	"pave/flows"
	"pave/ingest"
	"pave/ingest/transcript"
)

type importCmd struct {
	Paths  []string   `arg:"" name:"path" help:"Files, folders or patterns; .gz and .zst are read too."`
	Format fileFormat `help:"Format of the files, such as jsonl, traces or claude-code (a wrong one lists all); detected without it." env:"PAVE_FORMAT" placeholder:"FORMAT"`
	DryRun bool       `help:"Store nothing; with -o jsonl print the normalised calls." env:"PAVE_DRY_RUN"`
}

// fileFormat is a format that import and analyze read, "" to detect it.
type fileFormat transcript.Format

// UnmarshalText takes the name of a format.
func (f *fileFormat) UnmarshalText(text []byte) error {
	name := transcript.Format(text)
	if name != transcript.Auto && !slices.Contains(transcript.Formats(), name) {
		return fmt.Errorf("%q is none of %v", text, transcript.Formats())
	}
	*f = fileFormat(name)
	return nil
}

// Run records what the files hold, and assembles the sessions at once. Records that cannot be read are reported with
// file and line; the rest is recorded.
func (c *importCmd) Run(e *env) error {
	if c.DryRun {
		return c.dryRun(e)
	}
	if e.g.Output == output.FormatLines { // which would not be the calls that it is of a dry run
		return errUsage("-o jsonl: only with --dry-run")
	}
	return e.withClient(func(cl *client) error {
		up := &uploader{e: e, client: cl}
		report, err := c.read(e, up.send)
		if err != nil {
			return err
		}
		if err := up.assemble(); err != nil {
			return err
		}
		return finishImport(e, report, up)
	})
}

// read streams the files with a progress bar.
func (c *importCmd) read(e *env, emit func([]ingest.Event) error) (*transcript.Report, error) {
	bar := newBar(e.err)
	own, err := app.IngestConfig(e.g.DataDir)
	if err != nil {
		return nil, err
	}
	report, err := transcript.Import(e.ctx, c.Paths, transcript.Options{Format: transcript.Format(c.Format), Mapping: own.Mapping, Limits: own.Limits, Progress: bar.show}, emit)
	bar.done()
	if err == nil {
		err = anyFile(report, c.Paths)
	}
	return report, err
}

// anyFile is an error where folders hold no file that is read.
func anyFile(report *transcript.Report, paths []string) error {
	if len(report.Files) > 0 {
		return nil
	}
	return flows.NewError(flows.CodeNotFound, fmt.Sprintf("no recording is in %s: the names of recordings end in .json, .jsonl, .ndjson, .pb, .binpb, .traj or .csv, and in .gz or .zst behind that",
		output.Clean(strings.Join(paths, ", "))))
}

// dryRun assembles in memory and prints the calls, or only the counts.
func (c *importCmd) dryRun(e *env) error {
	var events []ingest.Event
	report, err := c.read(e, func(batch []ingest.Event) error {
		events = append(events, batch...)
		return nil
	})
	if err != nil {
		return err
	}
	sessions := ingest.AssembleAll(ingest.DefaultTenant, events, ingest.AssembleOptions{})
	if e.g.Output == output.FormatLines {
		if err := transcript.WriteNormalised(output.EscapeJSON(e.out), sessions); err != nil {
			return err
		}
		return rejectedStatus(e, report)
	}
	// What the sessions hold, not what was read: telemetry tells calls and messages several times.
	report.ToolCalls, report.LLMCalls, report.UserMessages = 0, 0, 0
	for _, s := range sessions {
		for _, r := range s.Runs {
			report.ToolCalls += len(r.Calls)
			report.UserMessages += len(r.Users)
			for _, l := range r.LLM {
				report.LLMCalls += int64(l.Count)
			}
		}
	}
	return finishImport(e, report, nil)
}

// uploader sends events to the ingest operation as NDJSON and sums the receipts.
type uploader struct {
	e                    *env
	client               *client
	buf                  []byte
	accepted, duplicates int
	assembled            int
	warnings             map[gen.IngestWarningCode]gen.IngestWarning
}

func (u *uploader) send(events []ingest.Event) error {
	u.buf = u.buf[:0]
	for i := range events {
		u.buf = append(ingest.AppendRecord(u.buf, &events[i]), '\n')
	}
	return u.post(u.buf, false)
}

// assemble brings the sessions of everything recorded up to date.
func (u *uploader) assemble() error { return u.post(nil, true) }

func (u *uploader) post(body []byte, assemble bool) error {
	resp, err := check(u.client.RecordToolCallsWithBodyWithResponse(u.e.ctx, &gen.RecordToolCallsParams{Assemble: assemble},
		"application/x-ndjson", bytes.NewReader(body)))
	if err != nil {
		return err
	}
	r := resp.JSON200
	u.accepted += r.Accepted
	u.duplicates += r.Duplicates
	u.assembled += r.SessionsAssembled
	for _, bad := range r.Rejected {
		return fmt.Errorf("the server refused a record that was read from a file: %s at %s", bad.Detail, bad.Pointer)
	}
	for _, w := range r.Warnings {
		if u.warnings == nil {
			u.warnings = make(map[gen.IngestWarningCode]gen.IngestWarning)
		}
		w.Count += u.warnings[w.Code].Count
		u.warnings[w.Code] = w
	}
	return nil
}

// finishImport prints the sums and what was rejected; anything rejected is exit status 5.
func finishImport(e *env, report *transcript.Report, up *uploader) error {
	sum := importSum{Files: len(report.Files), Events: report.Events, ToolCalls: report.ToolCalls, LLMCalls: report.LLMCalls,
		UserMessages: report.UserMessages, Rejected: report.RejectedCount, Filtered: report.Filtered, DryRun: up == nil}
	if up != nil {
		sum.Accepted, sum.Duplicates, sum.Sessions = up.accepted, up.duplicates, up.assembled
		for _, w := range up.warnings {
			fmt.Fprintf(e.err, "pave: warning: %s (%d records, %s)\n", output.Clean(w.Detail), w.Count, w.Code)
		}
	}
	if err := e.printValue(sum, sum.table); err != nil {
		return err
	}
	if report.Events+report.RejectedCount == 0 {
		fmt.Fprintln(e.err, "pave: nothing of an agent is in these files; --format says what they are where that was not seen")
	}
	return rejectedStatus(e, report)
}

// importSum is the answer of an import.
type importSum struct {
	Files        int   `json:"files"`
	Events       int   `json:"events"`
	ToolCalls    int   `json:"tool_calls"`
	LLMCalls     int64 `json:"llm_calls"`
	UserMessages int   `json:"user_messages"`
	Rejected     int   `json:"rejected"`
	Filtered     int   `json:"filtered"` // spans and log records that are no calls
	DryRun       bool  `json:"dry_run"`
	Accepted     int   `json:"accepted"`
	Duplicates   int   `json:"duplicates"`
	Sessions     int   `json:"sessions_assembled"`
}

func (s importSum) table(w io.Writer) error {
	fmt.Fprintf(w, "read      %d files: %d tool calls, %d LLM calls, %d user messages\n", s.Files, s.ToolCalls, s.LLMCalls, s.UserMessages)
	if s.DryRun {
		_, err := fmt.Fprintln(w, "recorded  nothing: this was a dry run")
		return err
	}
	_, err := fmt.Fprintf(w, "recorded  %d events, %d duplicates; %d sessions assembled\n", s.Accepted, s.Duplicates, s.Sessions)
	return err
}

// rejectedStatus lists rejected records and turns them into the exit status.
func rejectedStatus(e *env, report *transcript.Report) error {
	if report.RejectedCount == 0 {
		return nil
	}
	for i := range report.Rejected {
		fmt.Fprintln(e.err, "pave:", output.Clean(report.Rejected[i].Error()))
	}
	if more := report.RejectedCount - len(report.Rejected); more > 0 {
		fmt.Fprintf(e.err, "pave: and %d more\n", more)
	}
	others := "the others were taken"
	if report.Events == 0 {
		others = "no other was there"
	}
	fmt.Fprintf(e.err, "pave: %d records rejected, %s\n", report.RejectedCount, others)
	return errExit(api.ExitInvalid)
}

// bar is a progress bar on a terminal, and nothing elsewhere.
type bar struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

func newBar(w io.Writer) *bar { return &bar{w: w} }

func (b *bar) show(done, total int64) {
	if !isTerminal(b.w) {
		return
	}
	if b.bar == nil {
		b.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(b.w), progressbar.OptionShowBytes(true),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("reading"))
	}
	// A bar that cannot be drawn is no reason to stop reading.
	_ = b.bar.Set64(done)
}

func (b *bar) done() {
	if b.bar != nil {
		_ = errors.Join(b.bar.Finish(), b.bar.Exit())
	}
}
