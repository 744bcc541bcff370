package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"pave/governance/runs"
)

// Names of files in the data directory.
const (
	stateFile  = "state.db"
	eventsFile = "events.db"
	spoolFile  = "spool.db"
	redactFile = "redaction.key"
	vaultFile  = "checkpoint.key"
	secretsDir = "secrets"
)

var secretName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// maxSecret bounds a secret's file.
const maxSecret = 64 << 10

// secrets looks up {{secret:NAME}} of a tool's binding: the environment variable NAME, else the file secrets/NAME
// of the data directory. Values are never stored or logged.
func secrets(dir string) func(context.Context, string) (string, error) {
	return func(_ context.Context, name string) (string, error) {
		if !secretName.MatchString(name) {
			return "", fmt.Errorf("secret name %q: use letters, digits, _ . -", name)
		}
		if v, ok := os.LookupEnv(name); ok {
			return v, nil
		}
		root, err := os.OpenRoot(filepath.Join(dir, secretsDir))
		if err != nil {
			return "", fmt.Errorf("secret %s: set the environment variable, or write the file %s/%s in the data directory", name, secretsDir, name)
		}
		defer func() { _ = root.Close() }()
		f, err := root.Open(name)
		if err != nil {
			return "", fmt.Errorf("secret %s: set the environment variable, or write the file %s/%s in the data directory", name, secretsDir, name)
		}
		defer func() { _ = f.Close() }()
		raw, err := io.ReadAll(io.LimitReader(f, maxSecret))
		if err != nil {
			return "", fmt.Errorf("secret %s cannot be read", name)
		}
		return strings.TrimRight(string(raw), "\r\n"), nil
	}
}

// redactionKeySize is in bytes.
const redactionKeySize = 32

// redactionKey reads the key of the tokens that stand for redacted values, made at the first start, so that tokens
// stay equal over restarts. An empty file is one that a crash at the first start left; any other of a wrong size is an error,
// for a new key would make what is recorded from now on differ from what was.
func redactionKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, redactFile)
	key, err := os.ReadFile(path)
	switch {
	case err == nil && len(key) == redactionKeySize:
		return key, nil
	case err == nil && len(key) > 0:
		return nil, fmt.Errorf("redaction key %s has %d bytes, not %d: restore it from a backup, or remove it for a new one, with which equal values get other tokens than before",
			path, len(key), redactionKeySize)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("redaction key: %w", err)
	}
	key = make([]byte, redactionKeySize)
	_, _ = rand.Read(key) // crypto/rand never fails
	if err := os.WriteFile(path, key, 0o600); err != nil {
		return nil, fmt.Errorf("redaction key: %w", err)
	}
	return key, nil
}

// vault seals checkpoints with the key of a file: the one given, which must be there, or that of the data directory,
// which is made at the first start. Without its key no checkpoint can be read again.
func vault(dir, file string) (*runs.Vault, error) {
	path := file
	if path == "" {
		path = filepath.Join(dir, vaultFile)
	}
	key, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && file == "" {
		key = make([]byte, runs.VaultKeySize)
		_, _ = rand.Read(key) // crypto/rand never fails
		err = os.WriteFile(path, key, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint key: %w", err)
	}
	v, err := runs.NewVault(key)
	if err != nil {
		return nil, fmt.Errorf("checkpoint key %s: %w", path, err)
	}
	return v, nil
}
