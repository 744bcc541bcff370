package governance

import (
	"errors"
	"fmt"
	"slices"

	"pave/flows"
	"pave/flows/schema"
	"pave/governance/store"
)

// Level of a version bump.
type Level string

const (
	BumpFirst Level = "first" // there was no version
	BumpMajor Level = "major" // callers or reviewers of the version before may be surprised
	BumpMinor Level = "minor" // it does something else for the same callers
	BumpPatch Level = "patch" // words only
)

// VersionBump explains a version number. From is the highest version before, "" for the first.
type VersionBump struct {
	Level   Level
	From    string
	To      string
	Reasons []string // at least one, for people
}

// bumpIn compares a draft with the highest version of its flow. What callers rely on decides: an input that old callers
// do not give, an output that is gone or worse side effects are major; another way of doing it is minor; words are a
// patch.
func bumpIn(r *store.Reader, tenant string, draft *flows.Flow, now content) (VersionBump, error) {
	row, highest, err := highestIn(r, tenant, draft.Name)
	if errors.Is(err, store.ErrNotFound) {
		return VersionBump{Level: BumpFirst, To: "1.0.0", Reasons: []string{"the first version of this flow"}}, nil
	}
	if err != nil {
		return VersionBump{}, err
	}
	v, err := flowVersion(row)
	if err != nil {
		return VersionBump{}, err
	}
	b := VersionBump{Level: BumpMajor, From: row.Version, Reasons: breaks(v.Flow, draft)}
	tools, err := toolsIn(r, tenant)
	if err != nil {
		return VersionBump{}, err
	}
	if was := tools.contentOf(v.Flow).safety; flows.Exceeds(now.safety, was) {
		b.Reasons = append(b.Reasons, fmt.Sprintf("its side effects rise from %s to %s", was, now.safety))
	}
	next := flows.Version{Major: highest.Major + 1}
	switch {
	case len(b.Reasons) > 0:
	case sameBehaviour(v.Flow, draft):
		b.Level, next = BumpPatch, flows.Version{Major: highest.Major, Minor: highest.Minor, Patch: highest.Patch + 1}
		b.Reasons = []string{"only its description changed"}
	default:
		b.Level, next = BumpMinor, flows.Version{Major: highest.Major, Minor: highest.Minor + 1}
		b.Reasons = []string{"its steps changed; callers give and get what they did"}
	}
	b.To = next.String()
	return b, nil
}

// highestIn is the version of a flow with the highest number. Errors: store.ErrNotFound.
func highestIn(r *store.Reader, tenant, name string) (row store.FlowVersionRow, highest flows.Version, err error) {
	rows, err := r.FlowVersions(tenant, name)
	if err != nil {
		return row, highest, err
	}
	if len(rows) == 0 || name == "" {
		return row, highest, store.ErrNotFound
	}
	for i := range rows {
		v, err := flows.ParseVersion(rows[i].Version)
		if err != nil {
			return row, highest, fmt.Errorf("stored version of %s: %w", name, err)
		}
		if i == 0 || v.Compare(highest) > 0 {
			row, highest = rows[i], v
		}
	}
	return row, highest, nil
}

// breaks lists what callers of one flow would miss in another.
func breaks(was, is *flows.Flow) []string {
	var reasons []string
	if reason := misfit(was.InputSchema, is.InputSchema); reason != "" {
		reasons = append(reasons, "what old callers give does not fit its input any more: "+reason)
	}
	if len(was.OutputSchema) > 0 {
		if reason := misfit(is.OutputSchema, was.OutputSchema); reason != "" {
			reasons = append(reasons, "its output is not what old callers expect: "+reason)
		}
	}
	outputs := outputKeys(is)
	for _, key := range outputKeys(was) {
		if !slices.Contains(outputs, key) {
			reasons = append(reasons, fmt.Sprintf("its output %q is gone", key))
		}
	}
	return reasons
}

// misfit says why values of one schema are not values of the other, "" when they are or nothing is said.
func misfit(from, to flows.RawSchema) string {
	if len(to) == 0 {
		return ""
	}
	if len(from) == 0 {
		from = flows.RawSchema(`{"type":"object"}`)
	}
	out, err := schema.Compile([]byte(from))
	if err != nil {
		return ""
	}
	in, err := schema.Compile([]byte(to))
	if err != nil {
		return err.Error()
	}
	_, reason := schema.Assignable(out, in)
	return reason
}

// outputKeys are the keys that callers get by name: those that the flow returns, else those that its steps write.
func outputKeys(f *flows.Flow) []string {
	var keys []string
	for _, e := range f.Returns {
		keys = append(keys, e.Target)
	}
	if f.Returns != nil {
		return keys
	}
	for i := range f.Steps {
		if key := f.Steps[i].OutputAs; key != "" {
			keys = append(keys, key)
		}
		for _, e := range f.Steps[i].OutputMapping {
			keys = append(keys, e.ContextKey)
		}
	}
	return keys
}

// sameBehaviour says that two flows differ in words only.
func sameBehaviour(a, b *flows.Flow) bool {
	x, y := *a, *b
	x.Description, y.Description = "", ""
	return flows.Digest(&x) == flows.Digest(&y)
}
