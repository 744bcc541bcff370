package diagram

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mermaid is a Mermaid graph. Labels that Mermaid could read as something else are quoted.
func (g *graph) mermaid(direction Direction) string {
	if direction == "" {
		direction = LeftRight
	}
	var b strings.Builder
	fmt.Fprintf(&b, "graph %s", direction)
	if len(g.nodes) == 0 {
		b.WriteString("\n  empty[(empty flow)]")
		return b.String()
	}
	ids := g.ids(g.mermaidID)
	for i := range g.nodes {
		fmt.Fprintf(&b, "\n  %s[%s]", ids[i], g.mermaidLabel(&g.nodes[i]))
	}
	for _, e := range g.edges {
		arrow := "-->"
		if e.label != "" {
			arrow = `-->|"` + mermaidEscape(oneLine(e.label)) + `"|`
		}
		fmt.Fprintf(&b, "\n  %s %s %s", ids[e.from], arrow, ids[e.to])
	}
	for i := range g.nodes {
		if style := g.mermaidStyle(&g.nodes[i]); style != "" {
			fmt.Fprintf(&b, "\n  style %s %s", ids[i], style)
		}
	}
	return b.String()
}

// mermaidPlain are labels that need no quotes: names as tools have them, and the entities of escaped characters.
var mermaidPlain = regexp.MustCompile(`^(?:[A-Za-z0-9_.-]|&(?:[a-z]+|#x?[0-9a-f]+);)+$`)

func (g *graph) mermaidLabel(n *node) string {
	if g.plain {
		return htmlEscape(n.name)
	}
	name := mermaidEscape(oneLine(n.name))
	notes := g.notes(n)
	if len(notes) == 0 && mermaidPlain.MatchString(name) && !strings.EqualFold(name, "end") {
		return name
	}
	for _, note := range notes {
		name += "<br/>" + mermaidEscape(oneLine(note))
	}
	return `"` + name + `"`
}

func (g *graph) mermaidStyle(n *node) string {
	if !g.run {
		return ""
	}
	if !n.reached {
		return "stroke-dasharray:4"
	}
	switch n.mark.State {
	case StateFailed:
		return "fill:#f66"
	case StateHandedBack:
		return "fill:#fc6"
	case StateSkipped:
		return "fill:#ddd,stroke-dasharray:4"
	}
	return ""
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;")

func htmlEscape(s string) string { return htmlEscaper.Replace(s) }

// mermaidEscaper also takes the backtick, which begins formatted text in quotes, and the hash, which begins entities of
// Mermaid's own.
var mermaidEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;", "`", "&#96;", "#", "&#35;")

func mermaidEscape(s string) string { return mermaidEscaper.Replace(s) }

func (g *graph) mermaidID(i int) string {
	if g.linear() {
		return fmt.Sprintf("S%d", i)
	}
	if g.plain {
		return "S_" + g.nodes[i].id
	}
	return "S_" + identifier(g.nodes[i].id)
}

func (g *graph) dotID(i int) string {
	if g.linear() {
		return fmt.Sprintf("S%d", i)
	}
	return "S_" + dotName(g.nodes[i].id)
}

// ids names the nodes; ids that became equal are told apart by a number.
func (g *graph) ids(of func(i int) string) []string {
	out := make([]string, len(g.nodes))
	taken := make(map[string]bool, len(g.nodes))
	for i := range g.nodes {
		base := of(i)
		out[i] = base
		for n := 2; taken[out[i]]; n++ {
			out[i] = fmt.Sprintf("%s_%d", base, n)
		}
		taken[out[i]] = true
	}
	return out
}

// identifier replaces everything but ASCII letters, digits and underscores.
func identifier(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, s)
}

// dotName is a DOT identifier: letters of any script, digits and underscores, with a letter in front.
func dotName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) {
			return r
		}
		return '_'
	}, s)
	if first, _ := utf8.DecodeRuneInString(s); unicode.IsLetter(first) {
		return s
	}
	return "G_" + s
}

var dotEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func dotQuote(s string) string { return `"` + dotEscaper.Replace(s) + `"` }

// dot is a Graphviz digraph.
func (g *graph) dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotName(g.flow.Name))
	ids := g.ids(g.dotID)
	for i := range g.nodes {
		n := &g.nodes[i]
		label := n.name
		if !g.plain {
			label = strings.Join(append([]string{oneLine(n.name)}, lines(g.notes(n))...), "\n")
		}
		fmt.Fprintf(&b, "  %s [label=%s];\n", ids[i], dotQuote(label))
	}
	for _, e := range g.edges {
		label := ""
		if e.label != "" {
			label = " [label=" + dotQuote(oneLine(e.label)) + "]"
		}
		fmt.Fprintf(&b, "  %s -> %s%s;\n", ids[e.from], ids[e.to], label)
	}
	b.WriteString("}\n")
	return b.String()
}

func lines(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = oneLine(t)
	}
	return out
}
