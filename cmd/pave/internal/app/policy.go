package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

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
	doc, err := json.Marshal(tree)
	if err != nil {
		return policy, fmt.Errorf("%s: %w", path, err)
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&policy); err != nil {
		return policy, fmt.Errorf("%s: %w", path, err)
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
