package main

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"
)

//go:embed examples.txt
var examples string

// addExamples puts the examples of examples.txt into the help of their commands.
func addExamples(app *kong.Application) {
	of := make(map[*kong.Node][]string)
	for line := range strings.Lines(examples) {
		line = strings.TrimSpace(line)
		if node := commandIn(app, commandLine(line)); node != nil {
			of[node] = append(of[node], "  "+line)
		}
	}
	for node, lines := range of {
		node.Detail = strings.TrimSpace(node.Detail + "\n\nExamples:\n\n" + strings.Join(lines, "\n"))
	}
}

// commandLine is what the program gets of a line of a shell, which has no pipe behind the command.
func commandLine(line string) []string {
	if _, after, piped := strings.Cut(line, "| "); piped {
		line = after
	}
	line, _, _ = strings.Cut(line, " > ")
	var words []string
	var word strings.Builder
	quoted, begun := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

// commandIn is the command that the words behind "pave" name, nil when they name none.
func commandIn(app *kong.Application, words []string) *kong.Node {
	node := app.Node
	if len(words) == 0 || words[0] != "pave" {
		return nil
	}
	for _, word := range words[1:] {
		next := childOf(node, word)
		if next == nil {
			break
		}
		node = next
	}
	for node.DefaultCmd != nil { // such as the play of demo
		node = node.DefaultCmd
	}
	if !node.Leaf() {
		return nil
	}
	return node
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Type == kong.CommandNode && child.Name == name && !child.Hidden {
			return child
		}
	}
	return nil
}
