// Package output writes answers for people and programs: tables, JSON and YAML. Text that was observed (tool names,
// arguments, messages) may hold control sequences; nothing of it reaches a terminal raw.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Formats of the -o flag.
const (
	FormatTable = "table"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
	FormatLines = "jsonl"
)

// hostile reports whether a rune can move the cursor, hide text or reorder it: C0 and C1 controls, DEL, bidi
// controls, and invisible separators that break lines.
func hostile(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r == 0x2028, r == 0x2029, r == 0xfeff:
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// Clean makes one line of observed text safe to print: hostile runes and broken UTF-8 are shown escaped.
func Clean(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case hostile(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

func clean(s string) bool {
	for i, r := range s {
		if hostile(r) {
			return false
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return false
			}
		}
	}
	return true
}

// CleanLines is Clean for text of several lines: line ends stay.
func CleanLines(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Clean(line)
	}
	return strings.Join(lines, "\n") + "\n"
}

// JSON prints a JSON document indented. Hostile runes are written as \u escapes, which mean the same.
func JSON(w io.Writer, doc []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(doc), "", "  "); err != nil {
		return fmt.Errorf("answer is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := w.Write(escapeHostile(b.Bytes()))
	return err
}

// Lines prints a JSON document as lines of JSON: each element of a list, or of the items of a page, on a line of its own,
// anything else on one line.
func Lines(w io.Writer, doc []byte) error {
	var list []json.RawMessage
	var page struct {
		Items []json.RawMessage `json:"items"`
	}
	switch {
	case json.Unmarshal(doc, &list) == nil && list != nil:
	case json.Unmarshal(doc, &page) == nil && page.Items != nil:
		list = page.Items
	default:
		list = []json.RawMessage{doc}
	}
	var b bytes.Buffer
	for _, item := range list {
		if err := json.Compact(&b, item); err != nil {
			return fmt.Errorf("answer is not JSON: %w", err)
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(escapeHostile(b.Bytes()))
	return err
}

// EscapeJSON returns a writer for a stream of JSON documents that writes hostile runes as \u escapes.
func EscapeJSON(w io.Writer) io.Writer { return &escaping{w: w} }

type escaping struct {
	w    io.Writer
	tail []byte // beginning of a rune that the next Write completes
}

// Write implements io.Writer.
func (e *escaping) Write(p []byte) (int, error) {
	text := append(e.tail, p...)
	cut := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if start := len(text) - back; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				cut = start
			}
			break
		}
	}
	e.tail = append([]byte(nil), text[cut:]...)
	if _, err := e.w.Write(escapeHostile(text[:cut])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// escapeHostile writes hostile runes other than line ends as \uXXXX. In JSON they stand inside strings only.
func escapeHostile(doc []byte) []byte {
	if !bytes.ContainsFunc(doc, func(r rune) bool { return r != '\n' && hostile(r) }) {
		return doc
	}
	var b bytes.Buffer
	for _, r := range string(doc) {
		if r != '\n' && hostile(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// YAML prints a JSON document as YAML in the same order.
func YAML(w io.Writer, doc []byte) error {
	var node yaml.Node
	if err := yaml.Unmarshal(doc, &node); err != nil {
		return fmt.Errorf("answer is not JSON: %w", err)
	}
	blockStyle(&node)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return err
	}
	_, err := w.Write(escapeHostile(b.Bytes()))
	return err
}

// blockStyle drops the flow style of JSON. Scalars with hostile runes stay quoted, so that escaping them later is
// still YAML.
func blockStyle(node *yaml.Node) {
	node.Style = 0
	if node.Kind == yaml.ScalarNode && !clean(node.Value) {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		blockStyle(child)
	}
}

// Table is a table of text cells under headers; cells are cleaned.
type Table struct {
	out       io.Writer
	w         *tabwriter.Writer
	header    []string // nil once it is printed
	otherwise string
}

// NewTable starts a table with its header.
func NewTable(w io.Writer, header ...string) *Table {
	return &Table{out: w, w: tabwriter.NewWriter(w, 0, 4, 2, ' ', 0), header: header}
}

// Otherwise is what Flush prints in place of a table without rows, such as what would bring some.
func (t *Table) Otherwise(text string) { t.otherwise = text }

// Row adds a row.
func (t *Table) Row(cells ...string) {
	t.begin()
	t.line(cells)
}

func (t *Table) begin() {
	if t.header != nil {
		t.line(t.header)
		t.header = nil
	}
}

func (t *Table) line(cells []string) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		fmt.Fprint(t.w, Clean(cell))
	}
	fmt.Fprintln(t.w)
}

// Flush prints the table.
func (t *Table) Flush() error {
	if t.header != nil && t.otherwise != "" {
		_, err := fmt.Fprintln(t.out, t.otherwise)
		return err
	}
	t.begin()
	return t.w.Flush()
}

// Short cuts s to at most n runes, with an ellipsis.
func Short(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)
	return string(runes[:n-1]) + "…"
}
