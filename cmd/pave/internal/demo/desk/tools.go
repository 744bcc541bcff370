package desk

import (
	_ "embed"
	"strings"
)

//go:embed tools.yaml
var toolFile string

// ToolFile is the tool file that declares the desk's tools: bound to the server at base ("http://host:port"), but for one
// of an MCP server at carrier and one of the workers of the pool "payments".
func ToolFile(base, carrier string) string {
	return strings.NewReplacer("BASE", base, "CARRIER", carrier).Replace(toolFile)
}
