package governance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"pave/analyzer"
	"pave/flows"
	"pave/governance/store"
)

// Compatible is what the schemas of the known tools say of each other.
type Compatible struct {
	Tools int // compared
	// Of names the definitions that were compared: it changes with any of them.
	Of    string
	Items []analyzer.Compatibility
}

// Compatibility compares the known tools, declared or inferred, and returns the fields that fit; tool "" is all, else those
// that the tool gives or takes.
func (s *Service) Compatibility(ctx context.Context, actor Actor, tool string) (*Compatible, error) {
	catalogue, of, err := s.catalogue(ctx, actor)
	if err != nil {
		return nil, err
	}
	out := &Compatible{Tools: len(catalogue.Tools()), Of: of, Items: analyzer.Compatibilities(catalogue)}
	if tool != "" {
		if err := knownTool(catalogue, "tool", tool); err != nil {
			return nil, err
		}
		out.Items = slices.DeleteFunc(out.Items, func(c analyzer.Compatibility) bool { return c.Producer != tool && c.Consumer != tool })
	}
	return out, nil
}

// Bounds of the depth of chains.
const (
	minChainDepth = 2
	maxChainDepth = 6
)

// Chains lists the sequences of known tools that their schemas allow, best first. of names the definitions that they are of.
func (s *Service) Chains(ctx context.Context, actor Actor, q analyzer.ChainQuery) (chains []analyzer.Chain, of string, err error) {
	if q.MaxDepth != 0 && (q.MaxDepth < minChainDepth || q.MaxDepth > maxChainDepth) {
		return nil, "", flows.NewError(flows.CodeInvalid, fmt.Sprintf("max_depth %d: use %d to %d", q.MaxDepth, minChainDepth, maxChainDepth),
			flows.ErrorDetail{Pointer: "max_depth", Code: "out_of_range", Detail: fmt.Sprintf("%d to %d", minChainDepth, maxChainDepth)})
	}
	catalogue, of, err := s.catalogue(ctx, actor)
	if err != nil {
		return nil, "", err
	}
	for field, tool := range map[string]string{"from": q.From, "to": q.To} {
		if err := knownTool(catalogue, field, tool); err != nil {
			return nil, "", err
		}
	}
	return analyzer.Chains(catalogue, q), of, nil
}

func knownTool(catalogue analyzer.Catalogue, field, name string) error {
	if _, known := catalogue.Tool(name); known || name == "" {
		return nil
	}
	return flows.NewError(flows.CodeNotFound, fmt.Sprintf("there is no tool %q", name), flows.ErrorDetail{Pointer: field, Code: "not_found", Detail: "no such tool"})
}

// catalogue reads the tools as the analyzer sees them.
func (s *Service) catalogue(ctx context.Context, actor Actor) (catalogue analyzer.Catalogue, of string, err error) {
	var declared, inferred []*flows.Tool
	sum := sha256.New()
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.Tools(tenant)
		if err != nil {
			return err
		}
		for _, row := range rows {
			t, err := toolVersion(row)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%s\x00%v\x00%s\x00", row.Name, row.Inferred, row.DefinitionDigest)
			if row.Inferred {
				inferred = append(inferred, t.Tool)
			} else {
				declared = append(declared, t.Tool)
			}
		}
		return nil
	})
	return analyzer.NewCatalogue(declared, inferred), hex.EncodeToString(sum.Sum(nil)[:8]), err
}
