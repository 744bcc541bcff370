package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
	statestore "pave/governance/store"
	"pave/ingest"
)

// Finding is one thing that was looked at. Fix says what to do about a problem.
type Finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Doctor looks at a data directory without changing what it holds; a server may work in it.
func Doctor(ctx context.Context, dataDir string) []Finding {
	d := &doctor{dir: dataDir}
	if _, err := os.Stat(filepath.Join(dataDir, stateFile)); err != nil {
		d.add("data directory", false, fmt.Sprintf("%s has no %s", dataDir, stateFile), "give --data-dir; a new directory is made by pave serve")
		return d.findings
	}
	d.holder()
	d.files(ctx)
	d.keys()
	if err := watchDisk(dataDir).admit(); err != nil {
		d.add("disk", false, err.Error(), "free space; nothing is recorded until there is more")
	} else {
		d.add("disk", true, "has room", "")
	}
	if d.sound {
		d.audit(ctx)
	}
	return d.findings
}

type doctor struct {
	dir      string
	findings []Finding
	sound    bool // the state store can be read
}

func (d *doctor) add(check string, ok bool, detail, fix string) {
	d.findings = append(d.findings, Finding{Check: check, OK: ok, Detail: detail, Fix: fix})
}

func (d *doctor) holder() {
	held := readHolder(d.dir)
	switch {
	case held.Address != "":
		d.add("lock", true, fmt.Sprintf("a server at %s has it (process %d)", held.Address, held.PID), "")
	default:
		d.add("lock", true, "no server has it", "")
	}
}

// files checks the databases.
func (d *doctor) files(ctx context.Context) {
	for _, name := range databases {
		problems, schema, err := statestore.Inspect(ctx, filepath.Join(d.dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			d.add(name, false, err.Error(), "restore a backup (pave restore)")
		case len(problems) > 0:
			d.add(name, false, fmt.Sprintf("%d problems, the first: %s", len(problems), problems[0]), "stop the server and restore a backup (pave restore)")
		default:
			d.add(name, true, fmt.Sprintf("intact, schema %d", schema), "")
			d.sound = d.sound || name == stateFile
		}
	}
}

// keys checks that keys are whole and readable by their owner only.
func (d *doctor) keys() {
	for _, name := range []string{redactFile, vaultFile, governance.AdminKeyFile} {
		info, err := os.Stat(filepath.Join(d.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			d.add(name, false, err.Error(), "")
			continue
		}
		if size := map[string]int64{redactFile: redactionKeySize, vaultFile: runs.VaultKeySize}[name]; size > 0 && info.Size() != size {
			d.add(name, false, fmt.Sprintf("it has %d bytes, not %d", info.Size(), size), "restore it from a backup")
			continue
		}
		open := info.Mode().Perm()&0o077 != 0
		fix := ""
		if open {
			fix = "chmod 600 " + filepath.Join(d.dir, name)
		}
		d.add(name, !open, fmt.Sprintf("mode %04o", info.Mode().Perm()), fix)
	}
}

// audit verifies the chain and looks for what is stuck, in a copy: opening the state store itself would bring its schema
// up to date.
func (d *doctor) audit(ctx context.Context) {
	scratch, err := os.MkdirTemp("", "pave-doctor-")
	if err != nil {
		d.add("audit log", false, err.Error(), "")
		return
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	copied := filepath.Join(scratch, stateFile)
	if err := statestore.Snapshot(ctx, filepath.Join(d.dir, stateFile), copied); err != nil {
		d.add("audit log", false, err.Error(), "")
		return
	}
	db, err := statestore.Open(ctx, copied)
	if errors.Is(err, statestore.ErrNewer) {
		d.add("schema", false, err.Error(), "use the newer pave")
		return
	}
	if err != nil {
		d.add("schema", false, err.Error(), "restore a backup (pave restore)")
		return
	}
	defer func() { _ = db.Close() }()
	gate := governance.New(governance.Options{Store: db, Check: runs.Check})
	system := governance.Actor{Tenant: ingest.DefaultTenant, Principal: governance.SystemPrincipal, Scopes: governance.AllScopes}
	n, err := gate.VerifyAudit(ctx, system)
	if err != nil {
		d.add("audit log", false, err.Error(), "somebody changed the log by other means than pave; compare it with an export")
	} else {
		d.add("audit log", true, fmt.Sprintf("%d events, each as it was written", n), "")
	}
	hooks, err := gate.Webhooks(ctx, system)
	for _, hook := range hooks {
		if hook.State == governance.WebhookDisabled {
			d.add("webhook "+hook.ID, false, hook.Reason, "mend the receiver, then pave webhooks update "+hook.ID+" --state active")
		}
	}
	versions, more := gate.Flows(ctx, system)
	for _, v := range versions {
		if v.Active && v.Status == flows.StatusNeedsReview {
			d.add("flow "+v.Flow.Name, false, v.Reason, "review it; then pave flows status "+v.Flow.Name+" active")
		}
	}
	if err := errors.Join(err, more); err != nil {
		d.add("state", false, err.Error(), "")
	}
}
