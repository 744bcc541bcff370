package vectortest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// differences compares the keys that expect has and names those that differ.
func differences(expect, actual map[string]any) []string {
	var out []string
	for _, key := range sortedKeys(expect) {
		want, got := expect[key], actual[key]
		switch key {
		case "steps":
			out = append(out, stepDifferences(want.([]any), got)...)
			continue
		case "runs":
			w := want.([]any)
			runs, _ := got.([]any)
			if len(runs) != len(w) {
				out = append(out, fmt.Sprintf("%d runs, want %d", len(runs), len(w)))
				continue
			}
			for i := range w {
				for _, d := range differences(w[i].(map[string]any), runs[i].(map[string]any)) {
					out = append(out, fmt.Sprintf("runs[%d].%s", i, d))
				}
			}
			continue
		case "last_step":
			steps, _ := actual["steps"].([]any)
			out = append(out, recordDifferences(want.(map[string]any), steps, len(steps)-1)...)
			continue
		case "record":
			w := want.(map[string]any)
			steps, _ := actual["steps"].([]any)
			out = append(out, recordDifferences(w["is"].(map[string]any), steps, int(w["at"].(int64)))...)
			continue
		case "cost_report", "profile":
			if w, ok := want.(map[string]any); ok {
				if g, ok := got.(map[string]any); ok {
					for _, d := range differences(w, g) {
						out = append(out, key+"."+d)
					}
					continue
				}
			}
		case "raised", "registration_error":
			w, _ := want.(map[string]any)
			g, _ := got.(map[string]any)
			for _, k := range []string{"type", "code", "flow_name", "status", "reason", "details"} {
				if w[k] != nil && !value.Equal(w[k], g[k]) {
					out = append(out, fmt.Sprintf("%s.%s: want %v, got %v", key, k, w[k], g))
				}
			}
			continue
		}
		if !value.Equal(want, got) {
			out = append(out, fmt.Sprintf("%s: want %s, got %s", key, value.Encode(want), value.Encode(got)))
		}
	}
	return out
}

// recordDifferences compares one record alone.
func recordDifferences(want map[string]any, steps []any, at int) []string {
	if at < 0 || at >= len(steps) {
		return []string{fmt.Sprintf("no record %d of %d", at, len(steps))}
	}
	return stepDifferences([]any{want}, steps[at:at+1])
}

func stepDifferences(want []any, got any) []string {
	steps, _ := got.([]any)
	if len(steps) != len(want) {
		return []string{fmt.Sprintf("steps: want %d records, got %s", len(want), value.Encode(got))}
	}
	var out []string
	for i := range want {
		w, g := want[i].(map[string]any), steps[i].(map[string]any)
		for _, key := range sortedKeys(w) {
			same := false
			switch key {
			case "error_message":
				same = sameMessage(w[key], g[key]) || isInformative(w["error_code"])
			case "approval":
				same = sameApproval(w[key], g[key])
			case "decision":
				same = sameKeys(w[key], g[key])
			case "sub_result":
				ws, isResult := w[key].(map[string]any)
				gs, gotResult := g[key].(map[string]any)
				if isResult && gotResult {
					for _, d := range differences(ws, gs) {
						out = append(out, fmt.Sprintf("steps[%d].sub_result.%s", i, d))
					}
					continue
				}
				same = !isResult && !gotResult
			case "retry_errors":
				same = slices.EqualFunc(w[key].([]any), g[key].([]any), sameMessage)
			default:
				same = value.Equal(w[key], g[key])
			}
			if !same {
				out = append(out, fmt.Sprintf("steps[%d].%s: want %s, got %s", i, key, value.Encode(w[key]), value.Encode(g[key])))
			}
		}
	}
	return out
}

// isInformative reports whether the text of an error is not a contract: what a callback of the reference said, and
// what the reference says of its own classes.
func isInformative(code any) bool {
	switch code {
	case flows.CWApprovalDenied.Code, flows.CWGuardrail.Code, flows.CWDecisionTimeout.Code, flows.CWKernelInvocation.Code:
		return true
	}
	return false
}

// informativeReason: what a vector's approver raises or answers in place of a decision is informative: vectors name its mode only.
var informativeReason = regexp.MustCompile(`^(approval callback raised) .*$|^(approval callback returned) .*(, not an ApprovalDecision)$`)

func sameApproval(want, got any) bool {
	w, isObject := want.(map[string]any)
	g, gotObject := got.(map[string]any)
	if !isObject || !gotObject {
		return value.Equal(want, got)
	}
	wantReason, _ := w["reason"].(string)
	gotReason, _ := g["reason"].(string)
	if informativeReason.MatchString(wantReason) {
		text := func(s string) string { return informativeReason.ReplaceAllString(s, "$1$2$3") }
		return w["decision"] == g["decision"] && text(wantReason) == text(gotReason)
	}
	return value.Equal(want, got)
}

// sameKeys compares the keys that want has.
func sameKeys(want, got any) bool {
	w, isObject := want.(map[string]any)
	g, gotObject := got.(map[string]any)
	if !isObject || !gotObject {
		return value.Equal(want, got)
	}
	for k := range w {
		if !value.Equal(w[k], g[k]) {
			return false
		}
	}
	return true
}

var (
	// goldenViolations is how vectors write a validation error: VALIDATION[loc:type;loc:type].
	goldenViolations = regexp.MustCompile(`VALIDATION\[(.*)\]`)
	// violation is how pave writes one of them: "loc: message [type]".
	violation = regexp.MustCompile(`^(.*?): .* \[(\w+)\]$`)
)

// sameMessage compares two error texts. Of validation errors the locations and types count; the reference's prose
// about its own configuration is informative.
func sameMessage(want, got any) bool {
	w, isText := want.(string)
	g, gotText := got.(string)
	if !isText || !gotText {
		return want == got
	}
	m := goldenViolations.FindStringSubmatchIndex(w)
	if m == nil {
		for _, informative := range []string{"dry-run abort: ", "step_type='capability' "} {
			w, _, _ = strings.Cut(w, informative)
			g, _, _ = strings.Cut(g, informative)
		}
		return w == g || listedKeys.MatchString(w) && sortedList(w) == sortedList(g)
	}
	prefix := w[:m[0]]
	rest, ok := strings.CutPrefix(g, prefix)
	if !ok {
		return false
	}
	rest, _, _ = strings.Cut(rest, " (retry suppressed: ") // part of the prose that VALIDATION stands for
	var found []string
	for _, part := range strings.Split(rest, "; ") {
		v := violation.FindStringSubmatch(part)
		if v == nil {
			return false
		}
		found = append(found, v[1]+":"+v[2])
	}
	return slices.EqualFunc(sortedExtras(strings.Split(w[m[2]:m[3]], ";")), sortedExtras(found), sameViolation)
}

// sameViolation compares "loc:type". In the location a member of a union that is an object bears the name of the
// reference's class, which no vector gives; pave calls it model.
func sameViolation(want, got string) bool {
	if want == got {
		return true
	}
	w, g := strings.Split(want, "."), strings.Split(got, ".")
	return w[0] == g[0] && slices.EqualFunc(w, g, func(w, g string) bool {
		end, isModel := strings.CutPrefix(g, "model")
		return w == g || isModel && (end == "" && !strings.Contains(w, ":") || strings.HasPrefix(end, ":") && strings.HasSuffix(w, end))
	})
}

// sortedExtras sorts the runs of keys that a schema forbids: the order of undeclared keys is nobody's contract.
func sortedExtras(violations []string) []string {
	isExtra := func(s string) bool { return strings.HasSuffix(s, ":extra_forbidden") }
	out := slices.Clone(violations)
	for i := 0; i < len(out); i++ {
		j := i
		for j < len(out) && isExtra(out[j]) {
			j++
		}
		slices.Sort(out[i:j])
		i = max(i, j-1)
	}
	return out
}

// listedKeys is the end of a message that lists the keys that a tool gave, in an order of no meaning.
var listedKeys = regexp.MustCompile(`Available output keys: \[(.*)\]\.$`)

func sortedList(message string) string {
	m := listedKeys.FindStringSubmatchIndex(message)
	if m == nil {
		return message
	}
	keys := strings.Split(message[m[2]:m[3]], ", ")
	slices.Sort(keys)
	return message[:m[2]] + strings.Join(keys, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
