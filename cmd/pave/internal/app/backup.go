package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pave/flows"
	"pave/governance"
	statestore "pave/governance/store"
)

// manifestFile lists what a backup holds.
const manifestFile = "backup.json"

// databases are the SQLite files of a data directory, in the order in which they are copied: what refers before what is
// referred to.
var databases = []string{stateFile, spoolFile, eventsFile}

// plainFiles are the other files of a data directory that a restored one needs; folders are copied whole.
var plainFiles = []string{redactFile, vaultFile, governance.AdminKeyFile, ingestFile, secretsDir}

// Manifest says what a backup holds, with a digest of every file.
type Manifest struct {
	Format  int              `json:"format"`
	Version string           `json:"version"` // of pave
	At      time.Time        `json:"at"`
	Files   []ManifestedFile `json:"files"`
	Note    string           `json:"note,omitempty"`
}

// ManifestedFile is one file of a backup.
type ManifestedFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// manifestFormat is the version of the manifest.
const manifestFormat = 1

// Backup copies a data directory into a new folder, while a server may work in it: every database as it is at one
// moment, state before events, so that what the state refers to is in the events. With ClickHouse the events there are
// for ClickHouse's own backup; the spool, which holds what was not shipped, is copied.
func Backup(ctx context.Context, dataDir, to, version string) (*Manifest, error) {
	if _, err := os.Stat(filepath.Join(dataDir, stateFile)); err != nil {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("%s is no data directory of pave: it has no %s", dataDir, stateFile))
	}
	if err := emptyFolder(to); err != nil {
		return nil, err
	}
	m := &Manifest{Format: manifestFormat, Version: version, At: time.Now().UTC().Truncate(time.Millisecond)}
	for _, name := range databases {
		err := statestore.Snapshot(ctx, filepath.Join(dataDir, name), filepath.Join(to, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := m.add(to, name); err != nil {
			return nil, err
		}
		if name == spoolFile {
			m.Note = "the events are on ClickHouse and not in this backup; its spool is"
		}
	}
	for _, name := range plainFiles {
		if err := m.copy(dataDir, to, name); err != nil {
			return nil, err
		}
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	return m, os.WriteFile(filepath.Join(to, manifestFile), append(raw, '\n'), 0o600)
}

// emptyFolder makes a folder that holds nothing.
func emptyFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return flows.NewError(flows.CodeConflict, fmt.Sprintf("%s is not empty; take another folder", path))
	}
	return nil
}

// copy copies a file or folder of the data directory, if it is there.
func (m *Manifest) copy(from, to, name string) error {
	info, err := os.Stat(filepath.Join(from, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
		return m.add(to, name)
	}
	entries, err := os.ReadDir(filepath.Join(from, name))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(to, name), 0o700); err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			if err := m.copy(from, to, filepath.Join(name, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// add lists a file of the backup.
func (m *Manifest) add(dir, name string) error {
	sum, n, err := digestFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	m.Files = append(m.Files, ManifestedFile{Name: filepath.ToSlash(name), Bytes: n, SHA256: sum})
	return nil
}

func digestFile(path string) (sum string, n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// Restore makes a data directory of a backup, whose files must be as the manifest says. The directory must not be there
// or be empty.
func Restore(ctx context.Context, from, dataDir string) (*Manifest, error) {
	raw, err := os.ReadFile(filepath.Join(from, manifestFile))
	if err != nil {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("%s is no backup of pave: it has no %s", from, manifestFile))
	}
	m := new(Manifest)
	if err := json.Unmarshal(raw, m); err != nil || m.Format != manifestFormat {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the %s of %s is of another version", manifestFile, from))
	}
	for _, file := range m.Files {
		if !known(file.Name) {
			return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the backup lists %q, which no backup holds", file.Name))
		}
		sum, _, err := digestFile(filepath.Join(from, filepath.FromSlash(file.Name)))
		if err != nil || sum != file.SHA256 {
			return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("%s of the backup is not as it was written", file.Name))
		}
	}
	if err := emptyFolder(dataDir); err != nil {
		return nil, err
	}
	for _, file := range m.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to := filepath.Join(dataDir, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return nil, err
		}
		if err := copyFile(filepath.Join(from, filepath.FromSlash(file.Name)), to); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// known says that a backup may hold a file of this name.
func known(name string) bool {
	if folder, file, inside := strings.Cut(name, "/"); inside {
		return folder == secretsDir && secretName.MatchString(file)
	}
	return slices.Contains(databases, name) || slices.Contains(plainFiles, name) && name != secretsDir
}
