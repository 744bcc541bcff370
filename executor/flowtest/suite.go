package flowtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
)

// Value is a JSON value that keeps its exact numbers; Set tells null from absent.
type Value struct {
	V   any
	Set bool
}

// UnmarshalJSON reads any JSON value.
func (v *Value) UnmarshalJSON(data []byte) (err error) {
	v.V, err = value.Decode(data)
	v.Set = true
	return err
}

// Object is a JSON object of exact values.
type Object map[string]any

// UnmarshalJSON reads a JSON object.
func (o *Object) UnmarshalJSON(data []byte) error {
	v, err := value.Decode(data)
	if err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		return fmt.Errorf("must be an object, not %s", data)
	}
	*o = m
	return nil
}

// Suite is one test file.
type Suite struct {
	Path  string   `json:"-"`
	Flow  string   `json:"flow"`  // the flow file
	Flows []string `json:"flows"` // files and folders of sub-flows
	Tools []string `json:"tools"` // tool files and folders
	Cases []Case   `json:"cases"`
}

// Case is one run of the flow and what is expected of it.
type Case struct {
	Name          string              `json:"name"`
	Input         Object              `json:"input"`
	DynamicParams Object              `json:"dynamic_params"`
	DryRun        bool                `json:"dry_run"`
	Fakes         map[string][]Answer `json:"fakes"`
	Fixtures      string              `json:"fixtures"`
	// Decide chooses among the candidates of steps, by step id or by the step's own tool; other steps call their own.
	Decide map[string]string `json:"decide"`
	// Approve answers tools that need an approval; without it they are called as if nobody had to be asked.
	Approve *bool  `json:"approve"`
	Expect  Expect `json:"expect"`
}

// Answer is what a fake gives: Result, or Error where that is set.
type Answer struct {
	When   Object       `json:"when"`  // arguments that the call must have; others do not matter
	Times  int          `json:"times"` // calls that it answers, 0 is any number
	Result Value        `json:"result"`
	Error  *AnswerError `json:"error"`
}

// AnswerError is the error of a fake or of a recorded call, as executor.ToolError.
type AnswerError struct {
	Class   string `json:"class,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Type    string `json:"type,omitempty"`
}

func (e *AnswerError) tool() error {
	return &executor.ToolError{Class: e.Class, Code: e.Code, Message: e.Message, Type: e.Type}
}

// Expect is what a run must have been. Fields that are absent do not matter, but an absent Status is succeeded unless
// an error or a hand-back is expected.
type Expect struct {
	Status       string          `json:"status"`
	Output       Value           `json:"output"`        // the whole final output
	OutputHas    Object          `json:"output_has"`    // some of its keys, with their whole values
	ErrorCode    string          `json:"error_code"`    // of the last record that has one
	ErrorMessage string          `json:"error_message"` // a part of its message
	HandBack     *ExpectHandBack `json:"hand_back"`
	Steps        []ExpectStep    `json:"steps"` // the whole execution log; null where it does not matter
	Calls        map[string]int  `json:"calls"` // calls that reached a tool, attempts counted singly
}

// ExpectHandBack is where an agent should go on.
type ExpectHandBack struct {
	StepIndex *int   `json:"step_index"`
	StepID    string `json:"step_id"`
	ToolName  string `json:"tool_name"`
	Inputs    Value  `json:"inputs"`
	Reason    string `json:"reason"` // a part of it
}

// ExpectStep is what one record of the log must say; the fields are those of the record.
type ExpectStep struct {
	StepID           string `json:"step_id"`
	ToolName         string `json:"tool_name"`
	Inputs           Value  `json:"inputs"`
	Outputs          Value  `json:"outputs"`
	Success          *bool  `json:"success"`
	Skipped          *bool  `json:"skipped"`
	Cached           *bool  `json:"cached"`
	RetryCount       *int   `json:"retry_count"`
	FallbackToolName string `json:"fallback_tool_name"`
	ErrorCode        string `json:"error_code"`
	ErrorMessage     string `json:"error_message"` // a part of it
}

// suffixes end the names of test files in folders.
var suffixes = []string{".test.yaml", ".test.yml"}

func isTest(path string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) })
}

// Load reads test files; in folders those whose names end in .test.yaml or .test.yml, in order of their paths. The
// error is a *flows.Error that names the file.
func Load(paths ...string) ([]*Suite, error) {
	var suites []*Suite
	for _, path := range paths {
		files, err := walk(path, isTest)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, invalid(path, "has no *%s", strings.Join(suffixes, " and no *"))
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				return nil, invalid(file, "%v", err)
			}
			suite, err := Parse(raw, file)
			if err != nil {
				return nil, err
			}
			suites = append(suites, suite)
		}
	}
	return suites, nil
}

// Parse reads one test file; its paths are relative to the folder of path.
func Parse(data []byte, path string) (*Suite, error) {
	docs, err := flows.Documents(data)
	if err != nil {
		return nil, invalid(path, "%v", err)
	}
	if len(docs) != 1 {
		return nil, invalid(path, "holds %d documents instead of one", len(docs))
	}
	suite := &Suite{Path: path}
	if err := strictly(value.Encode(docs[0]), suite); err != nil {
		return nil, invalid(path, "%v", err)
	}
	if suite.Flow == "" || len(suite.Cases) == 0 {
		return nil, invalid(path, "needs flow and at least one case")
	}
	names := map[string]bool{}
	for i := range suite.Cases {
		c := &suite.Cases[i]
		if c.Name == "" || names[c.Name] {
			return nil, invalid(path, "/cases/%d/name: needs a name that no other case has", i)
		}
		names[c.Name] = true
		if err := c.check(); err != nil {
			return nil, invalid(path, "/cases/%d (%s): %v", i, c.Name, err)
		}
	}
	return suite, nil
}

func (c *Case) check() error {
	statuses := []string{"", executor.StatusSucceeded, executor.StatusFailed, executor.StatusHandedBack, executor.StatusCancelled}
	if !slices.Contains(statuses, c.Expect.Status) {
		return fmt.Errorf("/expect/status must be one of %v", statuses[1:])
	}
	for tool, answers := range c.Fakes {
		for i, a := range answers {
			at := "/fakes/" + value.Escape(tool) + fmt.Sprintf("/%d", i)
			switch {
			case a.Result.Set == (a.Error != nil):
				return fmt.Errorf("%s: give result or error", at)
			case a.Times < 0:
				return fmt.Errorf("%s/times: must not be negative", at)
			case a.Error != nil && a.Error.Class != "" && !executor.ValidClass(a.Error.Class):
				return fmt.Errorf("%s/error/class: must be one of %v", at, flows.ErrorClasses)
			}
		}
	}
	return nil
}

// strictly decodes a JSON document into a struct and refuses unknown fields.
func strictly(doc []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return fmt.Errorf("%s: must not be %s", wrong.Field, wrong.Value)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one document")
	}
	return nil
}

func invalid(path, format string, args ...any) error {
	return flows.NewError(flows.CodeInvalid, path+": "+fmt.Sprintf(format, args...))
}

// walk lists path itself when it is a file, else the wanted files under it.
func walk(path string, wanted func(string) bool) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("no file or folder %q", path))
	}
	if err != nil {
		return nil, invalid(path, "cannot be read: %v", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && wanted(p) {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		return nil, invalid(path, "cannot be read: %v", err)
	}
	return files, nil
}
