package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"pave/governance"
)

// ReadPolicy reads a policy file, YAML or JSON: what it leaves out is as by default, what it does not know is an error.
func ReadPolicy(path string) (governance.Policy, error) {
	policy := governance.DefaultPolicy()
	raw, err := os.ReadFile(path)
	if err != nil {
		return policy, err
	}
	var tree any
	if err := yaml.Unmarshal(raw, &tree); err != nil {
		return policy, fmt.Errorf("%s: %w", path, err)
	}
	if tree == nil {
		return policy, nil
	}
	if _, ok := tree.(map[string]any); !ok {
		return policy, fmt.Errorf("%s: must be a mapping of settings, such as min_replay_exact: 0.9", path)
	}
	doc, err := json.Marshal(tree)
	if err != nil {
		return policy, fmt.Errorf("%s: %w", path, err)
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&policy); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return policy, fmt.Errorf("%s: %s: a %s does not fit", path, wrong.Field, wrong.Value)
		}
		return policy, fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "json: "))
	}
	if err := policy.Check(); err != nil {
		return policy, fmt.Errorf("%s: %w", path, err)
	}
	return policy, nil
}

// ApplyPolicy makes the policy of a file the one in force, on behalf of this machine's user. Nothing changes when it is
// already.
func (a *App) ApplyPolicy(ctx context.Context, path string) error {
	policy, err := ReadPolicy(path)
	if err != nil {
		return err
	}
	now, revision, err := a.gate.Policy(ctx, a.localActor())
	if err != nil {
		return err
	}
	now.Solo = now.Solo && !a.opts.Solo // the setting is no part of the stored policy
	if reflect.DeepEqual(now, policy) {
		return nil
	}
	return a.gate.SetPolicy(ctx, a.localActor(), policy, revision)
}
