package executor

import (
	"cmp"
	"slices"
	"strings"

	"pave/flows/value"
)

// Redacted stands in place of a dynamic param's value wherever it is not the caller's.
const Redacted = "***REDACTED***"

// minSecretPart is the length from which a secret is looked for inside other strings; shorter ones are replaced only
// where they stand alone, so that "a" does not take every a out of a record.
const minSecretPart = 4

// Redact returns a result in the form in which it may be stored or shown: without the values of the run's dynamic
// params. Strings that are, or contain, one of their strings lose it; so do values under a param's name, and equal
// objects and lists. The result is not changed; without params it is returned as it is.
func Redact(result *RunResult, params map[string]any) *RunResult {
	if len(params) == 0 || result == nil {
		return result
	}
	return newSecrets(params).result(result)
}

// redactEvents wraps a listener so that it never sees the params' values.
func redactEvents(listen func(Event), params map[string]any) func(Event) {
	if listen == nil || len(params) == 0 {
		return listen
	}
	s := newSecrets(params)
	return func(ev Event) {
		ev.Inputs = s.object(ev.Inputs)
		if ev.StepRecord != nil {
			rec := s.record(*ev.StepRecord)
			ev.StepRecord = &rec
		}
		if ev.Result != nil {
			ev.Result = s.result(ev.Result)
		}
		listen(ev)
	}
}

type secrets struct {
	names  map[string]any
	texts  []string // longest first
	wholes []any    // objects and lists
}

func newSecrets(params map[string]any) *secrets {
	s := &secrets{names: params}
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			if v != "" {
				s.texts = append(s.texts, v)
			}
		case map[string]any:
			s.wholes = append(s.wholes, v)
			for _, e := range v {
				collect(e)
			}
		case []any:
			s.wholes = append(s.wholes, v)
			for _, e := range v {
				collect(e)
			}
		}
	}
	for _, v := range params {
		collect(v)
	}
	slices.SortFunc(s.texts, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return s
}

func (s *secrets) text(t string) string {
	for _, secret := range s.texts {
		if t == secret {
			return Redacted
		}
		if len(secret) >= minSecretPart {
			t = strings.ReplaceAll(t, secret, Redacted)
		}
	}
	return t
}

func (s *secrets) value(v any) any {
	switch v := v.(type) {
	case string:
		return s.text(v)
	case map[string]any:
		if s.whole(v) {
			return Redacted
		}
		return s.object(v)
	case []any:
		if s.whole(v) {
			return Redacted
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.value(v[i])
		}
		return out
	}
	return v
}

func (s *secrets) whole(v any) bool {
	return slices.ContainsFunc(s.wholes, func(w any) bool { return value.Equal(v, w) })
}

func (s *secrets) object(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		if secret, named := s.names[k]; named && value.Equal(v, secret) {
			out[k] = Redacted
			continue
		}
		out[s.text(k)] = s.value(v)
	}
	return out
}

func (s *secrets) texted(t *string) *string {
	if t == nil {
		return nil
	}
	out := s.text(*t)
	return &out
}

func (s *secrets) record(rec StepRecord) StepRecord {
	rec.Inputs, rec.Outputs, rec.ErrorMessage = s.object(rec.Inputs), s.object(rec.Outputs), s.texted(rec.ErrorMessage)
	if len(rec.RetryErrors) > 0 {
		errs := make([]string, len(rec.RetryErrors))
		for i, e := range rec.RetryErrors {
			errs[i] = s.text(e)
		}
		rec.RetryErrors = errs
	}
	if rec.Approval != nil {
		rec.Approval = &Approval{rec.Approval.Decision, s.texted(rec.Approval.Reason)}
	}
	if rec.SubResult != nil {
		rec.SubResult = s.result(rec.SubResult)
	}
	rec.Elements = s.records(rec.Elements)
	return rec
}

func (s *secrets) records(log []StepRecord) []StepRecord {
	if log == nil {
		return nil
	}
	out := make([]StepRecord, len(log))
	for i := range log {
		out[i] = s.record(log[i])
	}
	return out
}

func (s *secrets) result(r *RunResult) *RunResult {
	out := *r
	out.FinalOutput, out.InitialInput, out.ExecutionLog = s.object(r.FinalOutput), s.object(r.InitialInput), s.records(r.ExecutionLog)
	if r.HandBack != nil {
		h := *r.HandBack
		h.Inputs, h.Reason = s.object(h.Inputs), s.text(h.Reason)
		out.HandBack = &h
	}
	return &out
}
