package main

import (
	"bytes"
	"fmt"
	"io"

	"pave/executor/bind/local"
	"pave/flows"
)

type toolsBuiltinsCmd struct{}

// Run prints the tool file of the tools that come with pave; a registry has them once it is applied.
func (toolsBuiltinsCmd) Run(e *env) error {
	var doc bytes.Buffer
	tools := local.Builtins()
	for _, tool := range tools {
		text, err := flows.EncodeTool(tool, flows.FormatYAML)
		if err != nil {
			return fmt.Errorf("tool file of %s: %w", tool.Name, err)
		}
		fmt.Fprintf(&doc, "---\n%s", text)
	}
	return e.printValue(tools, func(w io.Writer) error {
		_, err := w.Write(doc.Bytes())
		return err
	})
}
