package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"gopkg.in/yaml.v3"

	"pave/cmd/pave/internal/app"
)

// settingsFile is pave.yaml: the same settings as the flags, nested by their dashes (egress: {allow: [...]} is
// --egress-allow). Unknown keys and wrong types are all reported, with their paths.
type settingsFile struct {
	path     string
	values   map[string]any // flag name -> value
	problems []string       // what is wrong in it, with key paths
}

// notInFile are flags that make no sense in a file: secrets, and what a command is about.
var notInFile = []string{"help", "config", "key", "as"}

// load finds and reads the file: --config, else PAVE_CONFIG, else pave.yaml where there is one.
func (s *settingsFile) load(app *kong.Application, args []string) error {
	path, explicit := configPath(args)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && !explicit {
		return nil
	}
	if err != nil {
		return fmt.Errorf("settings file: %w", err)
	}
	s.path = path
	return s.parse(raw, settingFlags(app))
}

// parse reads the file's text. What is wrong with single settings is kept in problems, so that it can be told together
// with what is wrong elsewhere; the error is for a file that cannot be read at all.
func (s *settingsFile) parse(raw []byte, known map[string]*kong.Flag) error {
	s.values = make(map[string]any)
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("settings file %s: %w", s.path, err)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	s.walk(doc.Content[0], "", known, &s.problems)
	return nil
}

// err lists the problems of the file, nil when there are none.
func (s *settingsFile) err() error {
	if len(s.problems) == 0 {
		return nil
	}
	return fmt.Errorf("settings file %s:\n  %s", s.path, strings.Join(s.problems, "\n  "))
}

// check lists what is wrong with the settings of whoever opens the data directory, by the key paths of the settings file.
func (g *globals) check() (problems []string) {
	if g.Clickhouse != "" {
		problems = app.CheckDSN(g.Clickhouse)
	}
	g.Mining.check(func(key, format string, args ...any) {
		problems = append(problems, key+": "+fmt.Sprintf(format, args...))
	})
	problems = append(problems, app.CheckEgress(g.EgressAllow)...)
	own, runs, spans := g.MCP.options(), g.RunSettings.options(), g.RunSettings.telemetry()
	return slices.Concat(problems, own.Check(), runs.Check(), spans.Check())
}

// usable is a usage error that lists what check finds, nil when that is nothing.
func (g *globals) usable() error { return settingsError(g.check()) }

func settingsError(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return errUsage("settings:\n  " + strings.Join(problems, "\n  "))
}

func configPath(args []string) (path string, explicit bool) {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--config="); ok {
			return value, true
		}
		if arg == "--config" && i+1 < len(args) {
			return args[i+1], true
		}
	}
	if value := os.Getenv("PAVE_CONFIG"); value != "" {
		return value, true
	}
	return "pave.yaml", false
}

// settingFlags are the global flags and those of serve, by name.
func settingFlags(app *kong.Application) map[string]*kong.Flag {
	known := make(map[string]*kong.Flag)
	add := func(flags []*kong.Flag) {
		for _, f := range flags {
			if !slices.Contains(notInFile, f.Name) {
				known[f.Name] = f
			}
		}
	}
	add(app.Flags)
	for _, child := range app.Children {
		if child.Name == "serve" {
			add(child.Flags)
		}
	}
	return known
}

func (s *settingsFile) walk(node *yaml.Node, path string, known map[string]*kong.Flag, problems *[]string) {
	fault := func(n *yaml.Node, at, text string) {
		*problems = append(*problems, fmt.Sprintf("%s: %s (line %d)", at, text, n.Line))
	}
	if node.Kind != yaml.MappingNode {
		fault(node, strings.TrimPrefix(path, "."), "must be a mapping of settings")
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		name := strings.NewReplacer(".", "-", "_", "-").Replace(at)
		flag := known[name]
		switch {
		case flag == nil && value.Kind == yaml.MappingNode && isPrefix(known, name+"-"):
			s.walk(value, at, known, problems)
		case flag == nil:
			fault(key, at, "unknown setting")
		default:
			if _, twice := s.values[name]; twice {
				fault(key, at, "is set twice")
				continue
			}
			v, text := settingValue(flag, value)
			if text != "" {
				fault(value, at, text)
				continue
			}
			s.values[name] = v
		}
	}
}

func isPrefix(known map[string]*kong.Flag, prefix string) bool {
	for name := range known {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// settingValue reads a value in the type of its flag; text says what is wrong.
func settingValue(flag *kong.Flag, node *yaml.Node) (v any, text string) {
	switch flag.Target.Kind() {
	case reflect.Bool:
		var b bool
		if node.Kind != yaml.ScalarNode || node.Tag != "!!bool" || node.Decode(&b) != nil {
			return nil, "must be true or false"
		}
		return b, ""
	case reflect.Slice:
		var items []string
		if node.Kind != yaml.SequenceNode || node.Decode(&items) != nil {
			return nil, "must be a list of texts"
		}
		list := make([]any, len(items))
		for i, item := range items {
			list[i] = item
		}
		return list, ""
	}
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		return nil, "must be one value"
	}
	if text := wrongNumber(flag, node.Value); text != "" {
		return nil, text
	}
	if flag.Enum != "" && !slices.Contains(strings.Split(flag.Enum, ","), node.Value) {
		return nil, "must be one of " + flag.Enum
	}
	return node.Value, ""
}

// wrongNumber says why a text is no value of a number's or duration's flag.
func wrongNumber(flag *kong.Flag, text string) string {
	if flag.Target.Type() == reflect.TypeFor[time.Duration]() {
		if _, err := time.ParseDuration(text); err != nil {
			return "must be a duration such as 90s or 1h30m"
		}
		return ""
	}
	switch flag.Target.Kind() {
	case reflect.Int, reflect.Int64, reflect.Int32:
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return "must be a whole number"
		}
	case reflect.Float64, reflect.Float32:
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return "must be a number"
		}
	}
	return ""
}

// Validate implements kong.Resolver; load has checked the file.
func (s *settingsFile) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver: the file's value where neither flag nor environment set one.
func (s *settingsFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return nil, nil
		}
	}
	v, ok := s.values[flag.Name]
	if !ok {
		return nil, nil
	}
	return v, nil
}
