package flows

// Incompatibility is a step that cannot run with the tools as they are.
type Incompatibility struct {
	StepIndex int
	ToolName  string
	IssueType string // IssueMissingTool or IssueSchemaMismatch
	Expected  string // IssueSchemaMismatch: the pinned hash
	Actual    string // and the tool's
}

// Kinds of Incompatibility.
const (
	IssueMissingTool    = "missing_tool"
	IssueSchemaMismatch = "schema_mismatch"
)

// Incompatibilities lists the steps whose tool is missing or has other schemas than the flow has pinned, in the
// order of the steps. Flows without pins only need their tools to exist; sub-flow steps are not looked at. tool
// returns nil for an unknown name.
func Incompatibilities(f *Flow, tool func(name string) *Tool) []Incompatibility {
	var out []Incompatibility
	for i := range f.Steps {
		name := f.Steps[i].ToolName
		if name == "" {
			continue
		}
		t := tool(name)
		if t == nil {
			out = append(out, Incompatibility{StepIndex: i, ToolName: name, IssueType: IssueMissingTool})
			continue
		}
		if pinned, ok := f.ToolSchemaHashes[name]; ok {
			if actual := SchemaHash(t); actual != pinned {
				out = append(out, Incompatibility{i, name, IssueSchemaMismatch, pinned, actual})
			}
		}
	}
	return out
}
