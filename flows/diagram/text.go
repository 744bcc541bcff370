package diagram

import (
	"fmt"
	"strings"
)

// text is one line for a linear flow and one line for each edge of a DAG, then what there is to say of the steps.
func (g *graph) text() string {
	if len(g.nodes) == 0 {
		return "(empty flow)"
	}
	names := g.labels()
	var b strings.Builder
	switch {
	case len(g.edges) == 0:
		b.WriteString(strings.Join(names, ", "))
	case g.linear():
		b.WriteString(strings.Join(names, " → "))
	default:
		for i, e := range g.edges {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s → %s", names[e.from], names[e.to])
			if e.label != "" {
				fmt.Fprintf(&b, "  when %s", oneLine(e.label))
			}
		}
	}
	if g.plain || g.simple() {
		return b.String()
	}
	b.WriteByte('\n')
	width := 0
	for _, name := range names {
		width = max(width, len([]rune(name)))
	}
	for i := range g.nodes {
		notes := g.notes(&g.nodes[i])
		for k, note := range notes {
			name := names[i]
			if k > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "\n%-*s  %s", width, name, oneLine(note))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func (g *graph) linear() bool { return len(g.nodes) > 0 && g.nodes[0].id == "" }

// labels are the steps in brackets. Where two steps of a DAG have the same tool, their ids tell them apart.
func (g *graph) labels() []string {
	count := make(map[string]int, len(g.nodes))
	for i := range g.nodes {
		count[g.nodes[i].name]++
	}
	out := make([]string, len(g.nodes))
	for i := range g.nodes {
		n := &g.nodes[i]
		out[i] = "[" + n.name + "]"
		if !g.plain {
			out[i] = "[" + oneLine(n.name) + "]"
			if n.id != "" && count[n.name] > 1 {
				out[i] = "[" + oneLine(n.id+": "+n.name) + "]"
			}
		}
	}
	return out
}
