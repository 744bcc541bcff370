package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"pave/cmd/pave/internal/output"
	"pave/flows"
	"pave/flows/value"
)

// drawFlow draws a flow as text, one step under the other with where each argument comes from. note may add a
// remark to an argument, such as how often its mapping held.
func drawFlow(w io.Writer, flow *flows.Flow, note func(step int, arg string) string) {
	from := sourcesOf(flow)
	fmt.Fprintln(w, "  input")
	for i := range flow.Steps {
		step := &flow.Steps[i]
		fmt.Fprintln(w, "    |")
		fmt.Fprintf(w, "  %d %s\n", i+1, output.Clean(step.Name()))
		for _, text := range from.conditions(i) {
			fmt.Fprintf(w, "    |   %s\n", output.Clean(text))
		}
		rows := make([][3]string, 0, len(step.InputMapping))
		if len(step.InputMapping) == 0 {
			rows = append(rows, [3]string{"*", "the whole context", ""})
		}
		if step.WithoutArguments() {
			fmt.Fprintln(w, "    |   takes no arguments")
		}
		for _, m := range step.InputMapping {
			if m.Value.NeverIn(step.OutputAs) {
				continue
			}
			row := [3]string{m.Target, from.elementOr(i, m.Value), ""}
			if note != nil {
				row[2] = note(sameCall(flow, i), m.Target)
			}
			rows = append(rows, row)
		}
		drawRows(w, rows)
	}
	fmt.Fprintln(w, "    |")
	fmt.Fprintln(w, "  output")
	rows := make([][3]string, 0, len(flow.Returns))
	for _, m := range flow.Returns {
		rows = append(rows, [3]string{m.Target, from.origin(len(flow.Steps), m.Value), ""})
	}
	if len(rows) == 0 {
		rows = append(rows, [3]string{"*", "the whole context", ""})
	}
	drawRows(w, rows)
}

// conditions says when a step runs, where that is not once after the step above it.
func (f *sources) conditions(i int) []string {
	var out []string
	flow := f.flow
	s := &flow.Steps[i]
	if text := stepOrder(flow, i); text != "" {
		out = append(out, text)
	}
	for j := range flow.Steps {
		before := &flow.Steps[j]
		for _, b := range before.Branches {
			if b.TargetStepID == s.StepID {
				out = append(out, fmt.Sprintf("only where %s, after step %d", b.Predicate, j+1))
			}
		}
		if before.DefaultNext != "" && before.DefaultNext == s.StepID {
			out = append(out, fmt.Sprintf("only where step %d takes none of its other ways", j+1))
		}
	}
	if s.ForEach != nil {
		out = append(out, fmt.Sprintf("once for each %s of %s", s.As, f.origin(i, *s.ForEach)))
	}
	if s.Guard != "" {
		out = append(out, fmt.Sprintf("only where %s; elsewhere the run is handed back", s.Guard))
	}
	return out
}

// sameCall is the first step that makes the same call on another way, whose evidence is that of all, or the step itself.
func sameCall(flow *flows.Flow, i int) int {
	s := &flow.Steps[i]
	for j := range i {
		if other := &flow.Steps[j]; s.OutputAs != "" && other.OutputAs == s.OutputAs && other.Name() == s.Name() {
			return j
		}
	}
	return i
}

// stepOrder says what a step of a DAG waits for, and which other steps wait for the same and no more: they run side by side.
func stepOrder(flow *flows.Flow, i int) string {
	if flow.Type != flows.TypeDAGFlow {
		return ""
	}
	var after, beside []string
	for j := range flow.Steps {
		other := &flow.Steps[j]
		if slices.Contains(flow.Steps[i].DependsOn, other.StepID) {
			after = append(after, strconv.Itoa(j+1))
		} else if j != i && sameSteps(other.DependsOn, flow.Steps[i].DependsOn) {
			beside = append(beside, strconv.Itoa(j+1))
		}
	}
	chosen := branches(flow, flow.Steps[i].DependsOn)
	text := ""
	if len(after) > 1 || len(after) == 1 && !chosen {
		text = "after " + strings.Join(after, ", ")
	}
	if len(beside) > 0 && !chosen {
		text = strings.TrimPrefix(text+", beside "+strings.Join(beside, ", "), ", ")
	}
	return text
}

func sameSteps(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// branches reports whether one of the steps chooses among those that come after it.
func branches(flow *flows.Flow, ids []string) bool {
	return slices.ContainsFunc(flow.Steps, func(s flows.Step) bool { return len(s.Branches) > 0 && slices.Contains(ids, s.StepID) })
}

// elementOr says where a value that a step takes comes from, of the element that it runs for, too.
func (f *sources) elementOr(i int, m flows.MappingValue) string {
	step := &f.flow.Steps[i]
	if step.ForEach != nil && (m.Kind == flows.MapKey || m.Kind == flows.MapPointer) {
		first, rest, below := strings.Cut(strings.TrimPrefix(m.Ref, "/"), "/")
		if m.Kind == flows.MapKey && m.Ref == step.As {
			return "the " + step.As
		}
		if m.Kind == flows.MapPointer && value.Unescape(first) == step.As {
			if !below {
				return "the " + step.As
			}
			return "the " + step.As + " /" + rest
		}
	}
	return f.origin(i, m)
}

func drawRows(w io.Writer, rows [][3]string) {
	var widths [2]int
	for i := range rows {
		for k := range rows[i] {
			rows[i][k] = output.Clean(rows[i][k])
		}
		widths[0] = max(widths[0], len([]rune(rows[i][0])))
		widths[1] = max(widths[1], len([]rune(rows[i][1])))
	}
	for _, row := range rows {
		line := fmt.Sprintf("    |   %-*s <- %-*s  %s", widths[0], row[0], widths[1], row[1], row[2])
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// flowFile prints the canonical flow file.
func flowFile(w io.Writer, flow *flows.Flow) error {
	doc, err := flows.EncodeFlow(flow, flows.FormatYAML)
	if err != nil {
		return fmt.Errorf("flow file: %w", err)
	}
	_, err = io.WriteString(w, output.CleanLines(string(doc)))
	return err
}
