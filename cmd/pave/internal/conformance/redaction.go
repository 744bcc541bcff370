package conformance

import (
	"encoding/json"
	"regexp"
	"slices"

	"pave/analyzer/baseline"
	"pave/flows/value"
	"pave/ingest"
)

// checkRedaction runs the default policy as pave redacts what it stores, and the presets as the reference has them.
func checkRedaction(v *vector) Outcome {
	var spec struct {
		Policy string
		Data   json.RawMessage
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	data, err := value.Decode(spec.Data)
	if err != nil {
		return failed("data: %v", err)
	}
	switch spec.Policy {
	case "default":
		redacted, err := value.Decode(ingest.NewKeyRedactor(nil).Redact(spec.Data))
		if err != nil {
			return failed("redacted: %v", err)
		}
		if len(v.differences(redacted)) == 0 {
			return exact()
		}
		return tokensInstead(v, data, redacted)
	case "recommended":
		return v.compare(baseline.RecommendedRedaction().Redact(data))
	case "strict":
		return v.compare(baseline.StrictRedaction().Redact(data))
	}
	return failed("unknown policy %q", spec.Policy)
}

// tokensInstead is rule R22: what is stored holds a keyed token in the place of each secret text or number, so that equal
// secrets stay equal for mining and nothing of them is readable. Everything else is as the vector expects.
func tokensInstead(v *vector, data, redacted any) Outcome {
	want, err := value.Decode(v.Expect)
	if err != nil {
		return failed("expect: %v", err)
	}
	if at := notTokens(want, data, redacted, ""); at != "" {
		return failed("R22: %s is not redacted: %s", at, value.Encode(redacted))
	}
	return diverges("R22")
}

// notTokens returns the place where redacted is not what rule R22 says, "" when it is.
func notTokens(want, data, redacted any, at string) string {
	if want == baseline.Redacted && want != data {
		return unhidden(data, redacted, at)
	}
	switch want := want.(type) {
	case map[string]any:
		d, isMap := data.(map[string]any)
		r, alsoMap := redacted.(map[string]any)
		if !isMap || !alsoMap || len(r) != len(want) {
			return at + "/"
		}
		for key := range want {
			if bad := notTokens(want[key], d[key], r[key], at+"/"+key); bad != "" {
				return bad
			}
		}
		return ""
	case []any:
		d, isList := data.([]any)
		r, alsoList := redacted.([]any)
		if !isList || !alsoList || len(r) != len(want) || len(d) != len(want) {
			return at + "/"
		}
		for i := range want {
			if bad := notTokens(want[i], d[i], r[i], at+"/"); bad != "" {
				return bad
			}
		}
		return ""
	}
	if !value.Equal(want, redacted) {
		return at
	}
	return ""
}

// token is what stands for a secret: its member's name and a keyed hash.
var token = regexp.MustCompile(`^\[redacted:[a-z_]+:[0-9a-f]{12}\]$`)

// unhidden finds a text or number of a secret value that is not a token. Nulls, booleans and empty texts hide nothing.
func unhidden(data, redacted any, at string) string {
	switch data := data.(type) {
	case map[string]any:
		r, _ := redacted.(map[string]any)
		for key := range data {
			if bad := unhidden(data[key], r[key], at+"/"+key); bad != "" {
				return bad
			}
		}
		return ""
	case []any:
		r, _ := redacted.([]any)
		if len(r) != len(data) {
			return at
		}
		for i := range data {
			if bad := unhidden(data[i], r[i], at+"/"); bad != "" {
				return bad
			}
		}
		return ""
	}
	if slices.ContainsFunc([]any{nil, true, false, ""}, func(plain any) bool { return value.Equal(plain, data) }) {
		return ""
	}
	if text, _ := redacted.(string); token.MatchString(text) {
		return ""
	}
	return at
}
