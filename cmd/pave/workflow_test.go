package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"
)

// TestWorkflowOfARepository runs the example of continuous integration for a repository with flows, step by step as
// its runner would.
func TestWorkflowOfARepository(t *testing.T) {
	example := filepath.Join(repoRoot(t), "testdata", "repository")
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/workflow",
		Setup: func(e *testscript.Env) error { return os.CopyFS(e.WorkDir, os.DirFS(example)) },
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"workflow": cmdWorkflow},
	})
}

// cmdWorkflow runs the steps of a workflow file until one fails: workflow FILE
func cmdWorkflow(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: workflow FILE")
	}
	var doc struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	ts.Check(yaml.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	ran := 0
	for _, job := range doc.Jobs {
		for _, step := range job.Steps {
			if step.Run == "" {
				continue
			}
			ran++
			if err := ts.Exec("sh", "-ec", step.Run); err != nil {
				if !neg {
					ts.Fatalf("%s: %v", step.Name, err)
				}
				ts.Check(ts.Exec("echo", step.Name+": failed"))
				return
			}
		}
	}
	switch {
	case ran < 4:
		ts.Fatalf("the workflow has only %d steps", ran)
	case neg:
		ts.Fatalf("every step passed")
	}
}
