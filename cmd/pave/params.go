package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"pave/flows/value"
)

// paramFlags are the dynamic params of a run. What is secret comes from a variable or a file, for a command line can be
// seen by others.
type paramFlags struct {
	Param     []string `help:"Dynamic param: NAME=VALUE, the value as JSON or else as text." env:"PAVE_PARAM" placeholder:"NAME=VALUE" sep:"none"`
	ParamEnv  []string `help:"Dynamic param from an environment variable: NAME=VARIABLE." name:"param-env" env:"PAVE_PARAM_ENV" placeholder:"NAME=VARIABLE"`
	ParamFile []string `help:"Dynamic param from a file's text: NAME=FILE." name:"param-file" env:"PAVE_PARAM_FILE" placeholder:"NAME=FILE"`
}

// params reads the flags as a JSON object, nil when there are none.
func (p *paramFlags) params() (json.RawMessage, error) {
	values, err := p.paramValues()
	if err != nil || values == nil {
		return nil, err
	}
	return value.Encode(values), nil
}

// paramValues reads the flags, nil when there are none.
func (p *paramFlags) paramValues() (map[string]any, error) {
	out := map[string]any{}
	for _, from := range []struct {
		flag    string
		entries []string
		read    func(string) (any, error)
	}{{"--param", p.Param, paramText}, {"--param-env", p.ParamEnv, paramVariable}, {"--param-file", p.ParamFile, paramContent}} {
		for _, entry := range from.entries {
			name, text, ok := strings.Cut(entry, "=")
			if !ok || name == "" {
				return nil, errUsage(from.flag + " needs NAME=..., such as token=...")
			}
			if _, twice := out[name]; twice {
				return nil, errUsage("the dynamic param " + name + " is given twice")
			}
			v, err := from.read(text)
			if err != nil {
				return nil, errUsage(fmt.Sprintf("%s %s: %v", from.flag, name, err))
			}
			out[name] = v
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

func paramText(text string) (any, error) {
	if v, err := value.DecodeStrict([]byte(text)); err == nil {
		return v, nil
	}
	return text, nil
}

func paramVariable(name string) (any, error) {
	v, ok := os.LookupEnv(name)
	if !ok {
		return nil, fmt.Errorf("there is no environment variable %s", name)
	}
	return v, nil
}

func paramContent(path string) (any, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return strings.TrimRight(string(raw), "\r\n"), nil
}
