package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"pave/cmd/pave/internal/output"
)

// spoken puts what people try first, pave help COMMAND and pave --version, into the words of this program.
func spoken(args []string) []string {
	if len(args) == 0 {
		return args
	}
	switch args[0] {
	case "help":
		return append(slices.Clone(args[1:]), "--help")
	case "--version":
		return append([]string{"version"}, args[1:]...)
	}
	return args
}

// checkLine finds mistakes that each value by itself does not show, before a command does anything: an argument that is
// empty, as by a variable of a shell that is not set, and a time that ends before it begins.
func checkLine(parsed *kong.Context) error {
	for _, part := range parsed.Path {
		if p := part.Positional; p != nil && hasEmpty(p.Target) {
			return errUsage(p.Summary() + " is empty: is a variable not set?")
		}
	}
	from, to := timeOf(parsed.Selected(), "from"), timeOf(parsed.Selected(), "to")
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return errUsage(fmt.Sprintf("--from %s is not before --to %s, so no time is between them", from.Format(time.RFC3339), to.Format(time.RFC3339)))
	}
	return nil
}

func hasEmpty(v reflect.Value) bool {
	switch texts := v.Interface().(type) {
	case string:
		return texts == ""
	case []string:
		return slices.Contains(texts, "")
	}
	return false
}

// timeOf is the value of a command's flag, zero where it has none or is no time.
func timeOf(command *kong.Node, flag string) (t time.Time) {
	for _, f := range command.Flags {
		if f.Name == flag {
			t, _ = f.Target.Interface().(time.Time)
		}
	}
	return t
}

// flowRef reads NAME or NAME@VERSION; exact says that there is a version.
func flowRef(ref string) (name, version string, exact bool, err error) {
	name, version, exact = strings.Cut(ref, "@")
	if name == "" || exact && version == "" {
		err = errUsage(fmt.Sprintf("%q: write NAME or NAME@VERSION of a flow", output.Clean(ref)))
	}
	return name, version, exact, err
}
