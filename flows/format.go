package flows

import _ "embed"

//go:embed flow.schema.json
var formatSchema []byte

// FormatSchema is the JSON Schema (2020-12) of flow files in JSON or YAML, discriminated by type. What ParseFlow reads
// is valid by it; beyond it ParseFlow checks the grammar of predicates and inline schemas. The caller owns the bytes.
func FormatSchema() []byte { return append([]byte(nil), formatSchema...) }

// Documents reads the documents of a JSON or YAML file within the default limits, with the YAML that flow files have:
// no tags, no repeated keys, the booleans of YAML 1.1. Objects are value.Members. The error is an *Error that wraps
// CWFlowSerialization.
func Documents(data []byte) ([]any, error) { return readTrees(data, DefaultLimits) }
