package analyzer

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// words splits a tool's or field's name into lower-case words: get_userDetails -> get, user, details. Of a name
// with a server before it (kb__search, kb.search, kb/search) only the last part counts.
func words(name string) []string {
	for _, sep := range []string{"__", ".", "/", ":"} {
		if i := strings.LastIndex(name, sep); i >= 0 && i+len(sep) < len(name) {
			name = name[i+len(sep):]
		}
	}
	var out []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	lower := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			lower = false
			continue
		case unicode.IsUpper(r) && lower:
			flush()
		}
		lower = !unicode.IsUpper(r)
		word.WriteRune(unicode.ToLower(r))
	}
	flush()
	return out
}

var (
	// readVerbs say that a tool looks something up; they carry nothing in a name.
	readVerbs = []string{"get", "find", "fetch", "lookup", "look", "read", "list", "search", "query", "retrieve", "show", "load", "describe", "check", "view", "select"}
	// fillers add nothing to a noun.
	fillers = []string{"details", "detail", "info", "information", "data", "record", "records", "the", "a", "an", "all", "for", "of", "to", "up"}
	// joints start the part of a name that says how something is found.
	joints = []string{"by", "from", "with", "in", "on", "via", "using"}
)

// parts of a tool's name: "find_user_id_by_name_zip" has the verb find, the noun user_id and the key name_zip.
type parts struct {
	verb, noun, by string
	reads          bool
}

func split(tool string) parts {
	ws := words(tool)
	var p parts
	if len(ws) > 1 {
		p.verb, ws = ws[0], ws[1:]
	}
	p.reads = slices.Contains(readVerbs, p.verb)
	if p.verb != "" && !p.reads && !looksLikeVerb(p.verb) {
		ws, p.verb = append([]string{p.verb}, ws...), ""
	}
	if i := slices.IndexFunc(ws, func(w string) bool { return slices.Contains(joints, w) }); i >= 0 {
		p.by, ws = strings.Join(ws[i+1:], "_"), ws[:i]
	}
	kept := slices.DeleteFunc(slices.Clone(ws), func(w string) bool { return slices.Contains(fillers, w) })
	if len(kept) == 0 {
		kept = ws
	}
	p.noun = strings.Join(kept, "_")
	if p.noun == "" {
		p.noun = strings.Join(words(tool), "_")
	}
	return p
}

// actionVerbs are the usual first words of tools that do something.
var actionVerbs = []string{"create", "add", "book", "cancel", "update", "modify", "change", "delete", "remove", "send", "set", "make", "return", "exchange",
	"transfer", "calculate", "compute", "process", "issue", "refund", "open", "close", "post", "put", "write", "run", "start", "stop", "submit", "assign", "move",
	"pay", "order", "reserve", "schedule", "notify", "reply", "track", "verify", "validate", "convert", "translate", "summarize", "summarise", "plot", "enable",
	"disable", "reset", "toggle", "grant", "revoke", "approve", "reject", "upload", "download", "save", "append", "insert", "copy", "merge", "invite"}

func looksLikeVerb(word string) bool { return slices.Contains(actionVerbs, word) }

// freeName returns name, or name with the first free number from 2 on, and takes it.
func freeName(taken map[string]bool, name string) string {
	if name == "" {
		name = "step"
	}
	chosen := name
	for i := 2; taken[chosen]; i++ {
		chosen = name + "_" + strconv.Itoa(i)
	}
	taken[chosen] = true
	return chosen
}

// outputKeys names each step's output by what the tool returns, apart from the inputs' names.
func outputKeys(tools, inputs []string) []string {
	taken := map[string]bool{}
	for _, in := range inputs {
		taken[in] = true
	}
	keys := make([]string, len(tools))
	for i, tool := range tools {
		noun := split(tool).noun
		if slices.Contains(inputs, noun) {
			noun += "_result"
		}
		keys[i] = freeName(taken, noun)
	}
	return keys
}

// grave are the first words of tools whose effect is hardest to undo, the gravest first. Of the steps that a name would
// leave out the gravest is told.
var grave = []string{"delete", "remove", "purge", "wipe", "drop", "erase", "destroy", "terminate", "refund", "pay", "charge", "transfer", "issue", "cancel",
	"revoke", "reset", "close", "disable", "void", "book", "exchange", "return", "grant", "approve", "reject", "deploy", "publish", "execute"}

// harmless are first words of tools that make something without changing anything.
var harmless = []string{"calculate", "compute", "track", "verify", "validate", "convert", "translate", "summarize", "summarise", "plot", "download", "make"}

// looks end the names of tools that look something up, whatever they begin with: order_status, return_details.
var looks = []string{"status", "details", "detail", "info", "information", "history", "list"}

// gravity orders tools by what they may do, the gravest first; acts is false for those that look something up.
func gravity(tool string) (rank int, acts bool) {
	ws := words(tool)
	if len(ws) == 0 || len(ws) == 2 && slices.Contains(looks, ws[1]) {
		return 0, false
	}
	verb := ws[0]
	if i := slices.Index(grave, verb); i >= 0 {
		return i, true
	}
	return len(grave), looksLikeVerb(verb) && !slices.Contains(harmless, verb)
}

// flowName says what the flow does in the tools' words: what comes out last and how it was found, and before it the
// gravest thing that happens on the way, so that no name of a harmless step hides it.
func flowName(tools []string) string {
	name, told := outcomeName(tools)
	hidden := gravestBut(told, tools)
	if hidden == "" {
		return name
	}
	p := split(hidden)
	if p.verb == "" {
		return p.noun + "_and_" + name
	}
	return p.verb + "_" + p.noun + "_and_" + name
}

// gravestBut is the tool with the gravest effect, "" where none has one, or one of those told is as grave.
func gravestBut(told, tools []string) string {
	gravest, hidden := len(grave)+1, ""
	for _, tool := range tools {
		if rank, acts := gravity(tool); acts && rank < gravest {
			gravest, hidden = rank, tool
		}
	}
	if slices.ContainsFunc(told, func(tool string) bool { rank, acts := gravity(tool); return acts && rank <= gravest }) {
		return ""
	}
	return hidden
}

// batchName names a flow that takes whole calls by its first and its last tool, with the gravest between them.
func batchName(tools []string) string {
	told := slices.Compact([]string{tools[0], tools[len(tools)-1]})
	if hidden := gravestBut(told, tools); hidden != "" {
		told = slices.Insert(told, 1, hidden)
	}
	return longBatchName(told)
}

// longBatchName has all tools.
func longBatchName(tools []string) string {
	names := make([]string, len(tools))
	for i, tool := range tools {
		names[i] = strings.Join(words(tool), "_")
	}
	return strings.Join(names, "_then_") + "_batch"
}

// outcomeName is a name from the first and the last tool, with those whose action it tells.
func outcomeName(tools []string) (name string, told []string) {
	first, last := split(tools[0]), split(tools[len(tools)-1])
	told = tools[len(tools)-1:]
	name = last.noun
	if !last.reads && last.verb != "" {
		name = last.verb + "_" + last.noun
	}
	switch {
	case len(tools) == 1: // a flow of one step runs it over a list
		return name + "_for_each", told
	case !slices.ContainsFunc(tools, func(t string) bool { return t != tools[0] }):
		return name + "_x" + strconv.Itoa(len(tools)), told
	case first.by != "":
		return name + "_by_" + first.by, told
	case !first.reads && first.verb != "":
		return first.verb + "_" + first.noun + "_then_" + name, append(told[:1:1], tools[0])
	case first.noun != last.noun:
		return name + "_from_" + first.noun, told
	case last.by != "":
		return name + "_by_" + last.by, told
	case !last.reads && first.verb != "":
		return name + "_after_" + first.verb, told
	}
	return name + "_lookup", told
}

// longFlowName tells apart what flowName does not: it has the nouns of the steps between, too.
func longFlowName(tools []string) string {
	name := flowName(tools)
	var via []string
	for _, tool := range tools[1:max(len(tools)-1, 1)] {
		if noun := split(tool).noun; !slices.Contains(via, noun) {
			via = append(via, noun)
		}
	}
	if len(via) == 0 {
		return name
	}
	return name + "_via_" + strings.Join(via, "_")
}

// maxFlowName keeps names readable; what is cut is told apart by the suffix of uniqueNames.
const maxFlowName = 60

// uniqueNames names the candidates. The choice depends on the set of candidates, not on their order or counts,
// so that names stay over passes.
func uniqueNames(keys []string, tools [][]string) []string {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(keys[a], keys[b]) })
	taken := map[string]bool{}
	names := make([]string, len(keys))
	for _, i := range order {
		short, long := flowName, longFlowName
		if strings.HasPrefix(keys[i], batchKey(nil)) {
			short, long = batchName, longBatchName
		}
		for _, name := range []string{short(tools[i]), long(tools[i]), long(tools[i]) + "_" + shortHash(keys[i])} {
			if len(name) > maxFlowName {
				name = strings.TrimRight(name[:maxFlowName-5], "_") + "_" + shortHash(keys[i])
			}
			names[i] = name
			if !taken[name] {
				break
			}
		}
		names[i] = freeName(taken, names[i])
	}
	return names
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:2])
}
