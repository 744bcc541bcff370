package diagram

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// Sizes of the drawing in pixels.
const (
	margin     = 16.0
	lineHeight = 15.0
	padding    = 10.0
	minBox     = 90.0
	nameWidth  = 7.9 // of one character
	noteWidth  = 6.7
	rankGap    = 40.0
	arrow      = 7.0
	svgLabel   = 46 // characters of a note before it is cut; the whole is in the tooltip
)

// Limits of a drawing that somebody could still read.
const (
	maxSVGSteps = 500
	maxSVGEdges = 2000
)

// look is how a step is painted.
type look struct{ fill, stroke, dash string }

var (
	plainLook     = look{"#f8fafc", "#475569", ""}
	unreachedLook = look{"#ffffff", "#94a3b8", "4 3"}
	looks         = map[State]look{
		StateDone:       {"#ecfdf5", "#059669", ""},
		StateFailed:     {"#fef2f2", "#dc2626", ""},
		StateSkipped:    {"#f1f5f9", "#94a3b8", "4 3"},
		StateHandedBack: {"#fff7ed", "#ea580c", ""},
	}
)

// painter writes the SVG of one graph. Layouts are made top-down; left-right swaps the axes.
type painter struct {
	*graph
	*layout
	b      strings.Builder
	across bool // left to right
	origin point
	labels [][]int // by step: its incoming edges with labels
}

type point struct{ x, y float64 }

// svg draws the graph. The text is part of the drawing: nothing is loaded, no script, no style that could meet others.
func (g *graph) svg(direction Direction) string {
	p := &painter{graph: g, across: direction == LeftRight, labels: make([][]int, len(g.nodes))}
	if len(g.nodes) == 0 || len(g.nodes) > maxSVGSteps || len(g.edges) > maxSVGEdges {
		return p.message()
	}
	for i, e := range g.edges {
		if e.label != "" {
			p.labels[e.to] = append(p.labels[e.to], i)
		}
	}
	p.layout = newLayout(g, p.size)
	depth := p.stack(p.gap)
	least, most := p.bounds()
	width, height := most-least, depth
	p.origin = point{margin - least, margin}
	if p.across {
		width, height = height, width
		p.origin = point{margin, margin - least}
	}
	p.open(width+2*margin, height+2*margin)
	ports := p.ports()
	for i := range g.edges {
		p.edge(i, ports)
	}
	for i := range g.nodes {
		p.node(i)
	}
	for i := range g.nodes {
		p.conditions(i)
	}
	p.b.WriteString("</svg>\n")
	return p.b.String()
}

// message is the drawing of a flow that has none.
func (p *painter) message() string {
	text := "(empty flow)"
	if len(p.nodes) > 0 {
		text = fmt.Sprintf("(%d steps and %d dependencies are too many to draw)", len(p.nodes), len(p.edges))
	}
	p.open(textWidth(text, noteWidth)+4*margin, 3*lineHeight)
	p.text(point{2 * margin, 2 * lineHeight}, "start", "#475569", 11, text)
	p.b.WriteString("</svg>\n")
	return p.b.String()
}

func (p *painter) open(width, height float64) {
	title := p.flow.Name
	if p.flow.Version != "" {
		title += "@" + p.flow.Version
	}
	fmt.Fprintf(&p.b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="%s" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="ui-monospace,Menlo,Consolas,monospace">`,
		escape(oneLine(title)), width, height, width, height)
	fmt.Fprintf(&p.b, "\n<title>%s</title>\n", escape(oneLine(title)))
	if p.flow.Description != "" {
		fmt.Fprintf(&p.b, "<desc>%s</desc>\n", escape(p.flow.Description))
	}
	fmt.Fprintf(&p.b, `<rect width="%.0f" height="%.0f" rx="8" fill="#ffffff"/>`+"\n", width, height)
}

// lines of a step's box: its id where it has one, its tool, its notes.
func (p *painter) lines(i int) (id, name string, notes []string) {
	n := &p.nodes[i]
	if n.id != n.name {
		id = shorten(n.id)
	}
	name = n.name
	if n.sub {
		name = "flow " + name
	}
	for _, note := range p.notes(n) {
		notes = append(notes, shorten(note))
	}
	return id, shorten(name), notes
}

func (p *painter) size(i int) (breadth, depth float64) {
	id, name, notes := p.lines(i)
	width := max(minBox, textWidth(name, nameWidth), textWidth(id, noteWidth))
	for _, note := range notes {
		width = max(width, textWidth(note, noteWidth))
	}
	height := lineHeight * float64(1+len(notes))
	if id != "" {
		height += lineHeight
	}
	if !p.across {
		for _, e := range p.labels[i] {
			width = max(width, textWidth(shorten(p.edges[e].label), noteWidth))
		}
	}
	width, height = width+2*padding, height+1.4*padding
	if p.across {
		return height, width
	}
	return width, height
}

// gap leaves room for the conditions before the steps of a rank.
func (p *painter) gap(rank int) float64 {
	room := 0.0
	for _, b := range p.ranks[rank] {
		step := p.boxes[b].step
		if step < 0 {
			continue
		}
		if !p.across {
			room = max(room, lineHeight*float64(len(p.labels[step])))
			continue
		}
		for _, e := range p.labels[step] {
			room = max(room, textWidth(shorten(p.edges[e].label), noteWidth))
		}
	}
	return rankGap + room
}

// at turns a position of the layout into one of the drawing.
func (p *painter) at(across, along float64) point {
	if p.across {
		return point{p.origin.x + along, p.origin.y + across}
	}
	return point{p.origin.x + across, p.origin.y + along}
}

// port is where an edge leaves and enters, across.
type port struct{ out, in float64 }

// ports spreads the edges of a step over its side, in the order of their other ends.
func (p *painter) ports() []port {
	ports := make([]port, len(p.edges))
	share := func(edges []int, towards func(e int) float64, of *box, set func(e int, at float64)) {
		slices.SortStableFunc(edges, func(a, b int) int { return cmp.Compare(towards(a), towards(b)) })
		for k, e := range edges {
			part := float64(k+1)/float64(len(edges)+1) - 0.5
			set(e, of.across+part*of.breadth*0.7)
		}
	}
	for i := range p.nodes {
		var out, in []int
		for e := range p.edges {
			if p.edges[e].from == i {
				out = append(out, e)
			}
			if p.edges[e].to == i {
				in = append(in, e)
			}
		}
		share(out, func(e int) float64 { return p.boxes[p.routes[e][1]].across }, &p.boxes[i], func(e int, at float64) { ports[e].out = at })
		share(in, func(e int) float64 { return p.boxes[p.routes[e][len(p.routes[e])-2]].across }, &p.boxes[i], func(e int, at float64) { ports[e].in = at })
	}
	return ports
}

func (p *painter) edge(i int, ports []port) {
	e, route := p.edges[i], p.routes[i]
	from, to := &p.boxes[e.from], &p.boxes[e.to]
	across, along := ports[i].out, from.along+from.depth/2
	dash := ""
	if e.label == "never" {
		dash = ` stroke-dasharray="4 3"`
	}
	start := p.at(across, along)
	fmt.Fprintf(&p.b, `<path fill="none" stroke="#64748b" stroke-width="1.4"%s d="M%.1f %.1f`, dash, start.x, start.y)
	curve := func(toAcross, toAlong float64) {
		middle := (along + toAlong) / 2
		a, b, c := p.at(across, middle), p.at(toAcross, middle), p.at(toAcross, toAlong)
		fmt.Fprintf(&p.b, " C%.1f %.1f %.1f %.1f %.1f %.1f", a.x, a.y, b.x, b.y, c.x, c.y)
		across, along = toAcross, toAlong
	}
	for _, b := range route[1 : len(route)-1] {
		bend := &p.boxes[b]
		curve(bend.across, bend.along-bend.depth/2)
		along += bend.depth
		straight := p.at(across, along)
		fmt.Fprintf(&p.b, " L%.1f %.1f", straight.x, straight.y)
	}
	end := to.along - to.depth/2
	curve(ports[i].in, end-arrow)
	tip, left, right := p.at(ports[i].in, end), p.at(ports[i].in-arrow/2, end-arrow), p.at(ports[i].in+arrow/2, end-arrow)
	fmt.Fprintf(&p.b, "\"/>\n<path fill=\"#64748b\" d=\"M%.1f %.1f L%.1f %.1f L%.1f %.1fZ\"/>\n", tip.x, tip.y, left.x, left.y, right.x, right.y)
}

func (p *painter) node(i int) {
	n, b := &p.nodes[i], &p.boxes[i]
	style := plainLook
	if p.run {
		style = unreachedLook
		if n.reached {
			style = looks[n.mark.State]
		}
	}
	centre, width, height := p.at(b.across, b.along), b.breadth, b.depth
	if p.across {
		width, height = height, width
	}
	dash := ""
	if style.dash != "" {
		dash = fmt.Sprintf(` stroke-dasharray="%s"`, style.dash)
	}
	fmt.Fprintf(&p.b, "<g><title>%s</title>\n", escape(strings.Join(append([]string{strings.TrimSpace(n.id + " " + n.name)}, p.notes(n)...), "\n")))
	left, top := centre.x-width/2, centre.y-height/2
	frame := func(inset float64, fill string) {
		fmt.Fprintf(&p.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="6" fill="%s" stroke="%s" stroke-width="1.4"%s/>`+"\n",
			left+inset, top+inset, width-2*inset, height-2*inset, fill, style.stroke, dash)
	}
	frame(0, style.fill)
	if n.sub {
		frame(3, "none")
	}
	id, name, notes := p.lines(i)
	y := top + 0.7*padding + lineHeight - 3.5
	if id != "" {
		p.text(point{centre.x, y}, "middle", "#64748b", 11, id)
		y += lineHeight
	}
	p.text(point{centre.x, y}, "middle", "#0f172a", 13, name)
	for _, note := range notes {
		y += lineHeight
		p.text(point{centre.x, y}, "middle", "#334155", 11, note)
	}
	p.b.WriteString("</g>\n")
}

// conditions writes the labels of a step's incoming edges before the step, one under the other.
func (p *painter) conditions(i int) {
	b := &p.boxes[i]
	start := b.along - b.depth/2
	for k, e := range p.labels[i] {
		text, anchor := shorten(p.edges[e].label), "middle"
		at := p.at(b.across, start-arrow-4-lineHeight*float64(len(p.labels[i])-1-k))
		if p.across {
			anchor = "end"
			at = p.at(b.across, start-arrow-4)
			at.y -= 4 + lineHeight*float64(len(p.labels[i])-1-k)
		}
		fmt.Fprintf(&p.b, "<g><title>%s</title>", escape(p.edges[e].label))
		p.text(at, anchor, "#1d4ed8", 11, text)
		p.b.WriteString("</g>\n")
	}
}

// text writes one line, with a white rim so that edges under it do not hide it.
func (p *painter) text(at point, anchor, fill string, size int, text string) {
	rim := ""
	if fill == "#1d4ed8" {
		rim = ` stroke="#ffffff" stroke-width="4" paint-order="stroke" stroke-linejoin="round"`
	}
	fmt.Fprintf(&p.b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" fill="%s"%s>%s</text>`+"\n", at.x, at.y, anchor, size, fill, rim, escape(text))
}

func shorten(s string) string {
	s = oneLine(s)
	if runes := []rune(s); len(runes) > svgLabel {
		return string(runes[:svgLabel-1]) + "…"
	}
	return s
}

// textWidth estimates the width of a line; letters of wide scripts count double.
func textWidth(s string, character float64) float64 {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x1100 {
			n++
		}
	}
	return float64(n) * character
}

// escape makes text safe in content and attributes; what XML cannot hold becomes U+FFFD.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder does not fail
	return b.String()
}
