package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// version is set by the linker.
var version = "dev"

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

type versionCmd struct{}

// Run prints the version of this program.
func (versionCmd) Run(e *env) error {
	build := map[string]string{"version": version, "revision": revision(), "go": runtime.Version()}
	return e.printValue(build, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "pave %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	})
}
