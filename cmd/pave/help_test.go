package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

func model(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := kong.New(new(cli), kong.Name("pave"), kong.Exit(func(int) {}))
	require.NoError(t, err)
	return parser
}

// TestEveryCommandTeachesWithExamples: each command has one in its help, and each of them is a command line that parses.
func TestEveryCommandTeachesWithExamples(t *testing.T) {
	parser := model(t)
	addExamples(parser.Model)
	leaves := 0
	for _, node := range parser.Model.Leaves(true) {
		leaves++
		require.NotEmpty(t, node.Help, node.Path())
		require.Contains(t, node.Detail, "Examples:\n", "no example of pave %s in examples.txt", node.Path())
	}
	require.Greater(t, leaves, 100)
	for line := range strings.Lines(examples) {
		words := commandLine(strings.TrimSpace(line))
		require.NotNil(t, commandIn(parser.Model, words), "%s is no command", line)
		parsed, err := model(t).Parse(words[1:])
		if err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
			continue
		}
		require.Equal(t, commandIn(parser.Model, words).Path(), parsed.Selected().Path(), line)
	}
}

func TestHelpShowsExamples(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Zero(t, execute([]string{"proposals", "approve", "--help"}, nil, &out, &errOut))
	require.Contains(t, out.String(), "pave proposals approve shipment_from_order --comment checked")
	require.Contains(t, out.String(), "--safety 'get_order=read:its documentation says so'")
}

// completion prints the script of a shell into a file.
func completion(t *testing.T, shell string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	require.Zero(t, execute([]string{"completion", shell}, nil, &out, &errOut), errOut.String())
	path := filepath.Join(t.TempDir(), "pave."+shell)
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here: apt-get install bash")
	}
	script := completion(t, "bash")
	complete := func(words ...string) []string {
		t.Helper()
		// The last word is the one that is being typed.
		cmd := exec.Command(bash, append([]string{"--norc", "-c", `set -u; . "$0"; COMP_WORDS=(pave "$@"); COMP_CWORD=$#; _pave; printf '%s\n' "${COMPREPLY[@]:-}"`, script}, words...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.Fields(string(out))
	}
	require.Equal(t, []string{"proposals", "promote"}, complete("pro"))
	require.Equal(t, []string{"approve"}, complete("proposals", "ap"))
	require.Equal(t, []string{"mermaid"}, complete("flows", "viz", "a_flow", "--format", "me"))
	require.Equal(t, []string{"table", "json", "yaml", "jsonl"}, complete("-o", ""))
	require.Equal(t, []string{"json", "jsonl"}, complete("runs", "list", "--output", "js"))
	require.Equal(t, []string{"--safety"}, complete("proposals", "approve", "an-id", "--sa"))
	require.Equal(t, []string{"bash"}, complete("completion", "b"))
	require.Contains(t, complete("flows", ""), "rollback")
	require.NotContains(t, complete("flows", ""), "serve", "commands of another place")
	require.Empty(t, complete("flows", "show", "nothing-of-that-name"))
}

func TestZshAndFishComplete(t *testing.T) {
	for shell, args := range map[string]func(script, line string) []string{
		"zsh": func(script, line string) []string { // zsh itself leaves what does not begin as the last word does
			return []string{"-f", "-c", `compdef() { }; . "$1"; compadd() { shift; print -l -- $@ }; words=("${(@s: :)2}"); CURRENT=$#words; _pave`, "zsh", script, line}
		},
		"fish": func(script, line string) []string {
			return []string{"--no-config", "-c", `source $argv[1]; complete -C $argv[2]`, script, line}
		},
	} {
		t.Run(shell, func(t *testing.T) {
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("no %[1]s here: apt-get install %[1]s", shell)
			}
			script := completion(t, shell)
			for line, want := range map[string]string{
				"pave prop": "proposals", "pave proposals ap": "approve", "pave flows viz a_flow --format me": "mermaid", "pave runs list -o js": "jsonl",
			} {
				out, err := exec.Command(program, args(script, line)...).CombinedOutput()
				require.NoError(t, err, string(out))
				require.Contains(t, strings.Fields(string(out)), want, line)
			}
		})
	}
}

// TestCompletionsAreValid lets each shell that is here parse its script; all of them name every command.
func TestCompletionsAreValid(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			path := completion(t, shell)
			raw, err := readFile("script", path)
			require.NoError(t, err)
			for _, node := range model(t).Model.Leaves(true) {
				words := strings.Fields(node.Path())
				require.Contains(t, string(raw), words[len(words)-1], node.Path())
			}
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("no %[1]s here to parse its script: apt-get install %[1]s", shell)
			}
			out, err := exec.Command(program, "-n", path).CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}
