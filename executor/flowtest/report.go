package flowtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/executor"
	"pave/flows/value"
)

// Report is the outcome of cases.
type Report struct {
	Passed int          `json:"passed"`
	Failed int          `json:"failed"`
	Cases  []CaseReport `json:"cases"`
}

func (r *Report) add(c CaseReport) {
	if c.Passed = len(c.Failures) == 0; c.Passed {
		r.Passed++
	} else {
		r.Failed++
	}
	r.Cases = append(r.Cases, c)
}

// OK reports whether every case passed.
func (r *Report) OK() bool { return r.Failed == 0 }

// CaseReport is the outcome of one case. Result is nil when the flow could not be started.
type CaseReport struct {
	File     string              `json:"file"`
	Case     string              `json:"case"`
	Flow     string              `json:"flow"`
	Passed   bool                `json:"passed"`
	Status   string              `json:"status,omitempty"` // of the run
	Failures []Failure           `json:"failures,omitempty"`
	Result   *executor.RunResult `json:"-"`
}

// Failure is one expectation that did not hold. Pointer leads to it in the case, Code is "mismatch", the code of a
// compile diagnostic, or CW-E040.
type Failure struct {
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (f Failure) String() string {
	return strings.TrimSpace(f.Pointer + " " + f.Message + " (" + f.Code + ")")
}

func (c *CaseReport) fail(pointer, code, format string, args ...any) {
	c.Failures = append(c.Failures, Failure{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...)})
}

func (c *CaseReport) lines() []string {
	out := make([]string, len(c.Failures))
	for i, f := range c.Failures {
		out[i] = f.String()
	}
	return out
}

const codeMismatch = "mismatch"

// check compares a run with what was expected.
func (e *Expect) check(out *CaseReport, calls map[string]int) {
	m := matcher{out: out, at: "/expect"}
	result := out.Result
	m.text("status", e.status(), result.Status)
	m.value("output", e.Output, orNull(result.FinalOutput))
	for _, key := range slices.Sorted(maps.Keys(e.OutputHas)) {
		got, ok := result.FinalOutput[key]
		if !ok {
			m.fail("output_has/"+value.Escape(key), "is not in the output, which has %v", slices.Sorted(maps.Keys(result.FinalOutput)))
			continue
		}
		m.value("output_has/"+value.Escape(key), Value{V: e.OutputHas[key], Set: true}, got)
	}
	last := lastError(result)
	m.text("error_code", e.ErrorCode, deref(last.ErrorCode))
	m.part("error_message", e.ErrorMessage, deref(last.ErrorMessage))
	e.checkHandBack(m, result.HandBack)
	e.checkSteps(m, result.ExecutionLog)
	for _, tool := range slices.Sorted(maps.Keys(e.Calls)) {
		if calls[tool] != e.Calls[tool] {
			m.fail("calls/"+value.Escape(tool), "expected %d calls, got %d", e.Calls[tool], calls[tool])
		}
	}
}

// status is the status that is expected: succeeded, where nothing says otherwise.
func (e *Expect) status() string {
	switch {
	case e.Status != "":
		return e.Status
	case e.HandBack != nil:
		return executor.StatusHandedBack
	case e.ErrorCode != "" || e.ErrorMessage != "":
		return ""
	}
	return executor.StatusSucceeded
}

func (e *Expect) checkHandBack(m matcher, got *executor.HandBack) {
	want := e.HandBack
	if want == nil {
		return
	}
	if got == nil {
		m.fail("hand_back", "the run was not handed back")
		return
	}
	m.at += "/hand_back"
	m.text("tool_name", want.ToolName, got.ToolName)
	m.text("step_id", want.StepID, got.StepID)
	m.part("reason", want.Reason, got.Reason)
	m.value("inputs", want.Inputs, orNull(got.Inputs))
	number(m, "step_index", want.StepIndex, got.StepIndex)
}

func (e *Expect) checkSteps(m matcher, log []executor.StepRecord) {
	if e.Steps == nil {
		return
	}
	if len(log) != len(e.Steps) {
		names := make([]string, len(log))
		for i := range log {
			names[i] = log[i].ToolName
		}
		m.fail("steps", "expected %d records, got %d: %s", len(e.Steps), len(log), strings.Join(names, ", "))
	}
	for i := range min(len(log), len(e.Steps)) {
		e.Steps[i].check(matcher{out: m.out, at: fmt.Sprintf("%s/steps/%d", m.at, i)}, &log[i])
	}
}

func (s *ExpectStep) check(m matcher, got *executor.StepRecord) {
	m.text("step_id", s.StepID, got.StepID)
	m.text("tool_name", s.ToolName, got.ToolName)
	m.value("inputs", s.Inputs, orNull(got.Inputs))
	m.value("outputs", s.Outputs, orNull(got.Outputs))
	number(m, "success", s.Success, got.Success)
	number(m, "skipped", s.Skipped, got.Skipped)
	number(m, "cached", s.Cached, got.Cached)
	number(m, "retry_count", s.RetryCount, got.RetryCount)
	m.text("fallback_tool_name", s.FallbackToolName, deref(got.FallbackToolName))
	m.text("error_code", s.ErrorCode, deref(got.ErrorCode))
	m.part("error_message", s.ErrorMessage, deref(got.ErrorMessage))
}

// matcher compares fields under a pointer; what is not expected is not compared.
type matcher struct {
	out *CaseReport
	at  string
}

func (m matcher) fail(field, format string, args ...any) {
	m.out.fail(m.at+"/"+field, codeMismatch, format, args...)
}

func (m matcher) text(field, want, got string) {
	if want != "" && want != got {
		m.fail(field, "expected %s, got %s", orNone(want), orNone(got))
	}
}

func (m matcher) part(field, want, got string) {
	if want != "" && !strings.Contains(got, want) {
		m.fail(field, "expected %q in it, got %s", want, orNone(got))
	}
}

func (m matcher) value(field string, want Value, got any) {
	if !want.Set || value.Equal(want.V, got) {
		return
	}
	pointer, expected, found := difference(want.V, got, nil)
	m.fail(field+pointer.String(), "expected %s, got %s", expected, found)
}

// number compares flags and counts.
func number[T comparable](m matcher, field string, want *T, got T) {
	if want != nil && *want != got {
		m.fail(field, "expected %v, got %v", *want, got)
	}
}

// difference is the first place where two values differ, and what stands there.
func difference(want, got any, at value.Pointer) (value.Pointer, string, string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(w)) {
			v, present := g[key]
			if !present {
				return append(at, key), text(w[key]), "nothing"
			}
			if !value.Equal(w[key], v) {
				return difference(w[key], v, append(at, key))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(g)) {
			if _, expected := w[key]; !expected {
				return append(at, key), "nothing", text(g[key])
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			break
		}
		for i := range w {
			if !value.Equal(w[i], g[i]) {
				return difference(w[i], g[i], append(at, fmt.Sprint(i)))
			}
		}
	}
	return at, text(want), text(got)
}

const maxShownValue = 400

func text(v any) string {
	s := string(value.Encode(v))
	if len(s) > maxShownValue {
		s = s[:maxShownValue] + "..."
	}
	return s
}

// includes reports whether every wanted key is there with an equal value.
func includes(have, want map[string]any) bool {
	for key, v := range want {
		got, ok := have[key]
		if !ok || !value.Equal(v, got) {
			return false
		}
	}
	return true
}

// lastError is the last record with an error.
func lastError(result *executor.RunResult) executor.StepRecord {
	for i := len(result.ExecutionLog) - 1; i >= 0; i-- {
		if result.ExecutionLog[i].ErrorCode != nil {
			return result.ExecutionLog[i]
		}
	}
	return executor.StepRecord{}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// orNull keeps a nil map from being an empty object.
func orNull(m map[string]any) any {
	if m == nil {
		return nil
	}
	return m
}
