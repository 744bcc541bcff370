package flows

import _ "embed"

//go:embed flow.schema.json
var formatSchema []byte

// FormatSchema is the JSON Schema (2020-12) of flow files in JSON or YAML, discriminated by type. What ParseFlow reads
// is valid by it; beyond it ParseFlow checks the grammar of predicates and inline schemas. The caller owns the bytes.
func FormatSchema() []byte { return append([]byte(nil), formatSchema...) }
