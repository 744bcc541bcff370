package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

// print writes an answer in the asked form; table writes it for people. As lines a page says on standard error where the
// next one begins.
func (e *env) print(body []byte, table func(w io.Writer) error) error {
	switch e.g.Output {
	case output.FormatJSON:
		return output.JSON(e.out, body)
	case output.FormatYAML:
		return output.YAML(e.out, body)
	case output.FormatLines:
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		if json.Unmarshal(body, &page) == nil {
			more(e.err, page.NextCursor)
		}
		return output.Lines(e.out, body)
	}
	return table(e.out)
}

// printValue is print for a value of this program.
func (e *env) printValue(v any, table func(w io.Writer) error) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return e.print(body, table)
}

// more says that a list has further pages.
func more(w io.Writer, cursor string) {
	if cursor != "" {
		fmt.Fprintf(w, "more: --cursor %s\n", output.Clean(cursor))
	}
}

// pageFlags select a page of a list.
type pageFlags struct {
	Limit  int    `help:"Rows on a page, at most 500." env:"PAVE_LIMIT" default:"50"`
	Cursor string `help:"Continue after this page." env:"PAVE_CURSOR"`
}

// figure prints a mean with its interval; unknown ones say so.
func figure(i gen.Interval, format string) string {
	if i.Known == 0 {
		return "unknown"
	}
	if i.Low == i.High {
		return fmt.Sprintf(format, i.Mean)
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", i.Mean, i.Low, i.High)
}

func share(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// pathOf writes tools as a path.
func pathOf(tools []string) string { return strings.Join(tools, " > ") }

// decodeExact decodes JSON so that numbers keep their digits.
func decodeExact(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}
