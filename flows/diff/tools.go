package diff

import (
	"fmt"

	textdiff "github.com/rogpeppe/go-internal/diff"

	"pave/flows"
	"pave/flows/value"
)

// ToolDiff is what differs between two definitions of a tool. Unified is a unified diff of their files, "" when they
// are equal. Schemas says whether what the tool takes or returns changed, Riskier whether its side effects got worse.
type ToolDiff struct {
	Equal   bool     `json:"equal"`
	Schemas bool     `json:"schemas_changed"`
	Riskier bool     `json:"riskier"`
	Changes []Change `json:"changes"`
	Unified string   `json:"unified"`
}

// Tools compares two definitions: name, description, schemas and safety. How a tool is reached and what an operator set
// for it, such as its timeout, do not count.
func Tools(before, after *flows.Tool) (*ToolDiff, error) {
	d, texts, trees := &Diff{Changes: []Change{}}, [2][]byte{}, [2]map[string]any{}
	for i, t := range []*flows.Tool{before, after} {
		bare := &flows.Tool{Name: before.Name, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
			SchemaVersion: t.SchemaVersion, Safety: t.Safety, DeclaredIdempotent: t.DeclaredIdempotent}
		var err error
		if texts[i], err = flows.EncodeTool(bare, flows.FormatYAML); err != nil {
			return nil, fmt.Errorf("encode tool %s: %w", t.Name, err)
		}
		tree, err := value.Of(bare)
		if err != nil {
			return nil, fmt.Errorf("encode tool %s: %w", t.Name, err)
		}
		trees[i], _ = tree.(map[string]any)
	}
	d.objects(trees[0], trees[1], nil, nil)
	out := &ToolDiff{Equal: len(d.Changes) == 0, Changes: d.Changes, Schemas: flows.SchemaHash(before) != flows.SchemaHash(after),
		Riskier: flows.Exceeds(flows.Effects(after.Safety), flows.Effects(before.Safety))}
	if !out.Equal {
		out.Unified = string(textdiff.Diff("accepted/"+before.Name, texts[0], "now/"+before.Name, texts[1]))
	}
	return out, nil
}
