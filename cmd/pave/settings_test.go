package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// FuzzSettings: any text is either taken or refused with the file's name; what is taken are known settings only.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		"", "listen: 127.0.0.1:0\n", "egress: {allow: [a, b]}\n", "solo: true\nsolo: false\n", "- a\n", "otlp: {listen: ''}\n",
		"a: &x {b: *x}\n", "data_dir: ~\n", "? {a: b}\n: c\n", "egress: {allow: {a: b}}\n", "\x00", "<<: {listen: x}\n",
	} {
		f.Add(seed)
	}
	parser, err := kong.New(&cli{}, kong.Name("pave"))
	require.NoError(f, err)
	known := settingFlags(parser.Model)
	f.Fuzz(func(t *testing.T, text string) {
		s := &settingsFile{path: "pave.yaml"}
		if err := s.parse([]byte(text), known); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "settings file pave.yaml"))
			return
		}
		if len(s.problems) > 0 {
			require.ErrorContains(t, s.err(), "settings file pave.yaml")
		}
		for name := range s.values {
			require.Contains(t, known, name)
		}
	})
}

// Every flag has its variable, and no two flags of one command share one.
func TestEveryFlagHasAVariable(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Name("pave"))
	require.NoError(t, err)
	global := map[string]string{}
	for _, flag := range parser.Model.Flags {
		if flag.Name != "help" {
			require.Len(t, flag.Envs, 1, "--%s", flag.Name)
			global[flag.Envs[0]] = flag.Name
		}
	}
	var walk func(node *kong.Node)
	walk = func(node *kong.Node) {
		own := map[string]string{}
		for _, flag := range node.Flags {
			if node.Hidden {
				continue
			}
			require.Len(t, flag.Envs, 1, "%s --%s", node.Path(), flag.Name)
			env := flag.Envs[0]
			require.True(t, strings.HasPrefix(env, "PAVE_"), env)
			require.NotContains(t, own, env, node.Path())
			require.NotContains(t, global, env, node.Path())
			own[env] = flag.Name
		}
		for _, child := range node.Children {
			walk(child)
		}
	}
	for _, child := range parser.Model.Children {
		walk(child)
	}
}

// A variable that several commands read means the same to all of them: it is the variable of one flag with one type of
// value. One that is set for the service, such as PAVE_TOOLS, does not change what another command works with.
func TestSharedVariablesHaveOneMeaning(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Name("pave"))
	require.NoError(t, err)
	meaning := map[string]string{}
	shared := 0
	var walk func(node *kong.Node)
	walk = func(node *kong.Node) {
		for _, flag := range node.Flags {
			if len(flag.Envs) == 0 {
				continue
			}
			this := fmt.Sprintf("--%s %s", flag.Name, strings.TrimPrefix(flag.Target.Type().String(), "*"))
			if other, ok := meaning[flag.Envs[0]]; ok {
				shared++
				require.Equal(t, other, this, "%s of %s", flag.Envs[0], node.Path())
			}
			meaning[flag.Envs[0]] = this
		}
		for _, child := range node.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
	require.Greater(t, shared, 20)
}

// The list of settings in the documentation is the one of the program.
func TestMiningSettingsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "observer", "README.md"))
	require.NoError(t, err)
	for _, s := range (&miningSettings{}).list() {
		value := s.Default
		switch {
		case value == "" && s.Value == false:
			value = "false"
		case value == "":
			value = "none"
		}
		require.Contains(t, string(doc), fmt.Sprintf("| `%s` | %s | %s |", s.Key, value, s.Help))
	}
}
