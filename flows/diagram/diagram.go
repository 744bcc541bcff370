// Package diagram draws flows: as lines of text, as Mermaid and DOT sources, and as SVG with a layout of its own.
//
// Every form shows the same graph. Nodes are steps; a node's remarks say what its tool's name does not: a guard, a
// loop, a fallback. Edges are dependencies, those out of a step with branches with the condition under which they are
// taken. A flow of plain steps looks exactly as the base system draws it. All text of the flow is escaped, so that a
// drawing of a hostile flow is still only a drawing.
package diagram

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows"
)

// Format is a form of drawing.
type Format string

const (
	FormatText    Format = "text"
	FormatMermaid Format = "mermaid"
	FormatDOT     Format = "dot"
	FormatSVG     Format = "svg"
)

// Formats are all of them.
var Formats = []Format{FormatText, FormatMermaid, FormatDOT, FormatSVG}

// Direction is where a drawing grows to. Text and DOT have none.
type Direction string

const (
	LeftRight Direction = "LR" // the default of Mermaid
	TopDown   Direction = "TD" // the default of SVG
)

// State is what a run did with a step.
type State string

const (
	StateDone       State = "done"
	StateFailed     State = "failed"
	StateSkipped    State = "skipped"
	StateHandedBack State = "handed back" // the run ended before it, for an agent to go on
)

// Mark is what a run did with one step.
type Mark struct {
	State  State
	Millis float64 // duration; 0 is not shown
	Note   string  // such as an error code, "cached", "2 retries"
}

// String is the mark as it stands behind a step's name: "✓ 1.2ms".
func (m Mark) String() string {
	parts := []string{map[State]string{StateDone: "✓", StateFailed: "✗", StateSkipped: "skipped", StateHandedBack: "handed back"}[m.State]}
	if m.Millis > 0 {
		parts = append(parts, fmt.Sprintf("%.1fms", m.Millis))
	}
	if m.Note != "" {
		parts = append(parts, m.Note)
	}
	return strings.Join(parts, " ")
}

// Overlay is what a run did, by position of the step in the flow. Steps without a mark were not reached.
type Overlay map[int]Mark

// Options of one drawing.
type Options struct {
	Format    Format // "" is FormatText
	Direction Direction
	// Plain draws as the base system does: steps and their order, no remarks, conditions or marks. It has no SVG.
	Plain bool
	// Sources says at each step where its arguments come from and under which key its result is kept; not with Plain.
	Sources bool
	// Run lays a run over the flow; nil draws the flow alone.
	Run Overlay
}

// Draw draws a flow. The error is a *flows.Error: an unknown format or direction, or a DAG flow whose steps have no
// order.
func Draw(flow *flows.Flow, o Options) (string, error) {
	if o.Format == "" {
		o.Format = FormatText
	}
	switch o.Direction {
	case "", LeftRight, TopDown:
	default:
		return "", flows.NewError(flows.CodeInvalid, fmt.Sprintf("direction %q: use %s or %s", o.Direction, LeftRight, TopDown))
	}
	if !slices.Contains(Formats, o.Format) || o.Plain && o.Format == FormatSVG {
		return "", flows.NewError(flows.CodeInvalid, fmt.Sprintf("format %q: use one of %v (svg has no plain form)", o.Format, Formats))
	}
	g, err := newGraph(flow, o)
	if err != nil {
		return "", err
	}
	switch o.Format {
	case FormatMermaid:
		return g.mermaid(o.Direction), nil
	case FormatDOT:
		return g.dot(), nil
	case FormatSVG:
		return g.svg(o.Direction), nil
	}
	return g.text(), nil
}
