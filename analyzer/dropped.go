package analyzer

// Dropped is a pattern, or a chain of tools, that makes no candidate.
type Dropped struct {
	Tools   []string
	Code    DroppedCode
	Reason  string // a clause
	Unblock string // a sentence: what would change it; "" where nothing needs to
}

// DroppedCode says in a word why there is no candidate.
type DroppedCode string

const (
	DroppedSecondary DroppedCode = "secondary" // it adds little to better patterns
	DroppedNoSaving  DroppedCode = "no_saving" // one model call asks for all of it
	DroppedSchema    DroppedCode = "schema"    // the tools' schemas contradict a mapping
	DroppedNoFlow    DroppedCode = "no_flow"   // no flow file can say it
	DroppedOrder     DroppedCode = "order"     // another candidate is the same flow
	DroppedChain     DroppedCode = "chain"     // a chain of schemas alone; no path that agents walked
)

// dropped says for people what the refusal means for a pattern.
func (r *refused) dropped(tools []string) Dropped {
	if r.schema {
		return Dropped{Tools: tools, Code: DroppedSchema, Reason: r.why,
			Unblock: "A tool file that declares what the tool takes and gives as it was recorded; if the file is right, calls that keep to it."}
	}
	return Dropped{Tools: tools, Code: DroppedNoFlow, Reason: r.why, Unblock: "A flow that somebody writes and submits: the miner has no way to write this one."}
}
