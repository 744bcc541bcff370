package transcript

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/otlp"
	"pave/ingest/rawjson"
)

// Options configure an import; the zero value detects formats and takes the default limits.
type Options struct {
	Format Format
	// Limits: Record, Depth, Tokens, ToolName, ID. A run of a trajectory file and an OTLP request may have
	// Limits.Inflated bytes.
	Limits ingest.Limits
	// Mapping names attributes of the user's own in OTLP files; nil is none.
	Mapping *otlp.Mapping
	// Progress is called with the bytes read of all files (as stored, compressed or not), often. nil is none.
	Progress func(done, total int64)
}

// Report says what an import found.
type Report struct {
	Files        []FileReport
	Events       int
	ToolCalls    int
	LLMCalls     int64 // model calls stood for
	UserMessages int
	// Rejected are the first MaxListed records that could not be read, RejectedCount all of them.
	Rejected      []ingest.RecordError
	RejectedCount int
	// Filtered counts spans and log records that are no calls, nor needed by any.
	Filtered int
}

// FileReport says what one file gave.
type FileReport struct {
	Path      string
	Format    Format
	ToolCalls int
	Rejected  int
}

// MaxListed bounds Report.Rejected.
const MaxListed = 100

const (
	batchEvents = 4000
	batchBytes  = 1 << 20
	headBytes   = 64 << 10
)

// Import reads the files of paths (files, folders, globs) in order and calls emit with batches of events, which emit
// owns. All of it is one import: sessions and copies may reach over files. Records that cannot be read are reported
// with file and line, and the rest goes on; so are files of no known format. Errors are those of ctx, of emit, and of
// paths that cannot be opened (*flows.Error).
func Import(ctx context.Context, paths []string, opts Options, emit func([]ingest.Event) error) (*Report, error) {
	opts.Limits = opts.Limits.WithDefaults()
	files, err := Expand(paths)
	if err != nil {
		return nil, err
	}
	s := &sink{ctx: ctx, opts: opts, emit: emit, report: &Report{}, sidecars: make(map[string]sidecar)}
	for _, f := range files {
		s.total += f.size
	}
	for _, f := range files {
		if err := s.file(f.path); err != nil {
			return s.report, err
		}
	}
	return s.report, s.flush()
}

// foundFile is a file to import.
type foundFile struct {
	path string
	size int64
}

// Expand resolves files, folders (all files below with a known ending) and globs, in order and each file once.
// requests.json of captures and sessions.jsonl of recorded sessions stand beside calls and are left out.
func Expand(paths []string) ([]foundFile, error) {
	var files []foundFile
	seen := make(map[string]bool)
	add := func(path string, size int64) {
		if clean := filepath.Clean(path); !seen[clean] {
			seen[clean] = true
			files = append(files, foundFile{clean, size})
		}
	}
	for _, path := range paths {
		matches := []string{path}
		info, err := os.Stat(path)
		if err != nil {
			if matches, err = filepath.Glob(path); err != nil || len(matches) == 0 {
				return nil, &flows.Error{Code: flows.CodeNotFound, Message: fmt.Sprintf("no file, folder or pattern %q", path), Err: err}
			}
		} else if !info.IsDir() {
			add(path, info.Size())
			continue
		}
		for _, match := range matches {
			err := filepath.WalkDir(match, func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || p != match && !importable(p) || beside(p) {
					return err
				}
				info, err := d.Info()
				if err == nil {
					add(p, info.Size())
				}
				return err
			})
			if err != nil {
				return nil, &flows.Error{Code: flows.CodeInvalid, Message: fmt.Sprintf("cannot read %q: %v", match, err), Err: err}
			}
		}
	}
	return files, nil
}

// importable reports a known ending.
func importable(path string) bool {
	name, _ := uncompressed(path)
	return slices.Contains([]string{".json", ".jsonl", ".ndjson", ".binpb", ".pb", ".traj", ".csv"}, strings.ToLower(filepath.Ext(name)))
}

// beside reports files that describe others.
func beside(path string) bool {
	name, _ := uncompressed(filepath.Base(path))
	return name == "requests.json" || name == sidecarName
}

// uncompressed takes the compression suffix off a name and names the encoding.
func uncompressed(path string) (name, encoding string) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".gz":
		return path[:len(path)-len(ext)], "gzip"
	case ".zst", ".zstd":
		return path[:len(path)-len(ext)], "zstd"
	}
	return path, ""
}

// input is an opened file.
type input struct {
	path    string // as given, for messages
	name    string // base name without the compression suffix
	session string // of what names no session itself
	r       *bufio.Reader
}

// sink collects events into batches and counts.
type sink struct {
	ctx         context.Context
	opts        Options
	emit        func([]ingest.Event) error
	report      *Report
	batch       []ingest.Event
	size        int
	done, total int64
	sidecars    map[string]sidecar // by folder
	stopped     error              // of emit or ctx: the import ends, unlike at errors of files
}

func (s *sink) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return &flows.Error{Code: flows.CodeNotFound, Message: fmt.Sprintf("cannot open %q: %v", path, err), Err: err}
	}
	defer func() { _ = f.Close() }() // only read
	return s.read(path, &progress{r: f, s: s})
}

// read imports one file's text.
func (s *sink) read(path string, r io.Reader) error {
	name, encoding := uncompressed(path)
	plain, err := ingest.Inflate(r, encoding, ingest.Limits{Body: math.MaxInt64, Inflated: math.MaxInt64, Ratio: 1 << 20})
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	in := &input{path: path, name: filepath.Base(name), r: bufio.NewReaderSize(plain, headBytes)}
	head, err := in.r.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		s.reject(ingest.RecordError{File: path, Line: 1, Code: flows.CodeInvalid, Message: "the file cannot be read: " + err.Error()})
		return nil
	}
	in.session = fileSession(in.name, head)
	format := s.opts.Format
	if format == Auto {
		format = Detect(name, head)
	}
	s.report.Files = append(s.report.Files, FileReport{Path: path, Format: format})
	if len(bytes.TrimSpace(head)) == 0 {
		return nil
	}
	read := readers[format]
	if read == nil {
		s.reject(ingest.RecordError{File: path, Line: 1, Code: flows.CodeUnsupportedMedia,
			Message: fmt.Sprintf("the format of the file is not known; say it with --format (%s)", formatList())})
		return nil
	}
	if err = read(s, in); err != nil && s.stopped == nil {
		s.reject(ingest.RecordError{File: path, Code: flows.CodeInvalid, Message: "the rest of the file cannot be read: " + err.Error()})
	}
	return s.stopped
}

// readers import files, by format.
var readers = map[Format]func(*sink, *input) error{
	Records: (*sink).records, ChainWeaver: (*sink).chainWeaver, Chat: (*sink).chat, Responses: (*sink).responses,
	ClaudeCode: (*sink).claudeCode, Codex: (*sink).codex, GeminiCLI: (*sink).gemini, LangSmith: (*sink).langSmith, Langfuse: (*sink).langfuse,
	MCP: (*sink).mcp, SWEAgent: (*sink).sweAgent, TauBench: (*sink).tauBench, Tau2Bench: (*sink).tau2Bench, ToolBench: (*sink).toolBench,
	ATIF: (*sink).atif, Steps: (*sink).steps, OTLPTraces: (*sink).otlpTraces, OTLPLogs: (*sink).otlpLogs, OTLP: (*sink).otlpMixed,
}

// maxLine bounds a line of a session log, which may carry a picture.
const maxLine = 16 << 20

// documents calls fn with each JSON document of the file, its text mended. What is no JSON, and what fn does not take, is
// reported, and the rest goes on.
func (s *sink) documents(in *input, form rawjson.Form, fn func(raw []byte, index, line int) error) error {
	most := int(s.opts.Limits.Inflated)
	if form == rawjson.Lines {
		most = min(most, maxLine)
	}
	stream := rawjson.NewStream(in.r, form, most)
	for index := 0; ; index++ {
		raw, line, err := stream.Next()
		var broken *rawjson.Error
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, rawjson.ErrRecordTooLarge) && !errors.As(err, &broken):
			return err
		case err == nil && len(bytes.TrimSpace(raw)) == 0:
			continue
		case err == nil:
			raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
			if err = rawjson.Valid(raw, rawjson.Limits{Depth: maxFileDepth, Tokens: 10 << 20}); err == nil {
				err = fn(bytes.Clone(raw), index, line)
			}
		}
		if s.stopped != nil {
			return s.stopped
		}
		if err != nil {
			s.reject(ingest.RecordError{File: in.path, Index: index, Line: line, Code: flows.CodeInvalid, Message: err.Error()})
		}
	}
}

// maxFileDepth bounds the nesting of documents that hold whole conversations.
const maxFileDepth = 256

func formatList() string {
	var names []string
	for _, f := range Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// add takes events into the batch.
func (s *sink) add(events ...ingest.Event) error {
	for i := range events {
		e := &events[i]
		if problem := s.problem(e); problem != "" {
			s.reject(ingest.RecordError{File: s.report.Files[len(s.report.Files)-1].Path, Code: flows.CodeInvalid, Message: problem})
			continue
		}
		s.report.Events++
		s.size += len(e.Metadata) + 256
		switch {
		case e.Call != nil:
			s.report.ToolCalls++
			s.report.Files[len(s.report.Files)-1].ToolCalls++
			s.size += len(e.Call.Args) + len(e.Call.Result)
		case e.LLM != nil:
			s.report.LLMCalls += int64(e.LLM.Count)
		case e.User != nil:
			s.report.UserMessages++
			s.size += len(e.User.Text)
		}
		s.batch = append(s.batch, *e)
		if len(s.batch) >= batchEvents || s.size >= batchBytes {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// problem says why an event cannot be stored, "" when it can.
func (s *sink) problem(e *ingest.Event) string {
	if e.Call != nil {
		if problem := ingest.ToolNameProblem(e.Call.Tool, s.opts.Limits.ToolName); problem != "" {
			return problem
		}
		if len(e.Call.CallID) > s.opts.Limits.ID {
			return fmt.Sprintf("a call id is longer than %d bytes", s.opts.Limits.ID)
		}
	}
	for _, id := range []string{e.SessionID, e.RunID, e.Agent, e.TraceID, e.SpanID, e.ParentSpanID} {
		if len(id) > s.opts.Limits.ID {
			return fmt.Sprintf("an id or an agent's name is longer than %d bytes", s.opts.Limits.ID)
		}
	}
	return ""
}

// flush emits the batch. Its error ends the import.
func (s *sink) flush() error {
	if s.stopped = s.ctx.Err(); s.stopped == nil && len(s.batch) > 0 {
		batch := s.batch
		s.batch, s.size = nil, 0
		s.stopped = s.emit(batch)
	}
	return s.stopped
}

func (s *sink) reject(e ingest.RecordError) {
	s.report.RejectedCount++
	if n := len(s.report.Files); n > 0 && s.report.Files[n-1].Path == e.File {
		s.report.Files[n-1].Rejected++
	}
	if len(s.report.Rejected) < MaxListed {
		s.report.Rejected = append(s.report.Rejected, e)
	}
}

// progress counts what was read.
type progress struct {
	r io.Reader
	s *sink
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.s.done += int64(n)
	if p.s.opts.Progress != nil && n > 0 {
		p.s.opts.Progress(p.s.done, max(p.s.total, p.s.done))
	}
	return n, err
}
