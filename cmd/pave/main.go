// Command pave records agents' tool calls, proposes flows that need no model between the steps, and runs the
// approved ones.
package main

import "os"

func main() {
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
