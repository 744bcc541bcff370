package desk

import (
	_ "embed"
	"strings"
)

//go:embed tools.yaml
var toolFile string

// ToolFile is the tool file that declares the desk's tools, bound to the server at base ("http://host:port").
func ToolFile(base string) string { return strings.ReplaceAll(toolFile, "BASE", base) }
