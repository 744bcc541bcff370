// Package deadletter keeps request bodies that could not be read, so that they can be looked at and sent again after
// whatever was wrong is mended: a bounded number of sealed files in one directory.
package deadletter

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"pave/flows"
)

// Letter is a request body that could not be read.
type Letter struct {
	ID       string // set by Add
	Received time.Time
	Tenant   string
	Signal   string // traces, logs
	Encoding string // protobuf, json
	Reason   string // why it could not be read
	Body     []byte // as sent, after decompression
	Size     int    `json:"-"` // bytes of the body, where a list leaves it out
}

// Options bound a Store; zero fields take the defaults.
type Options struct {
	Count int   // letters, 1,000
	Bytes int64 // of all letters, 64 MiB
	Each  int64 // of one letter; larger ones are not kept, 16 MiB
}

// Store keeps letters. What they hold was never redacted, so they are sealed with the key and read only through the
// Store. When there is no room the oldest go. Safe for concurrent use by one process.
type Store struct {
	root *os.Root
	seal cipher.AEAD
	opts Options

	mu      sync.Mutex
	entries []entry // oldest first
	bytes   int64
	dropped int64
	serial  int
}

type entry struct {
	name string
	size int64
}

const suffix = ".letter"

// Open opens the directory, made when it is not there. The key is any secret that is kept over restarts.
func Open(dir string, key []byte, opts Options) (*Store, error) {
	opts.Count, opts.Bytes, opts.Each = cmp.Or(opts.Count, 1000), cmp.Or(opts.Bytes, 64<<20), cmp.Or(opts.Each, 16<<20)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte("dead letters\x00"), key...))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{root: root, seal: seal, opts: opts}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// Close releases the directory.
func (s *Store) Close() error { return s.root.Close() }

func (s *Store) load() error {
	found, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, f := range found { // in order of their names, which begin with the time
		if !strings.HasSuffix(f.Name(), suffix) {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return err
		}
		s.entries = append(s.entries, entry{f.Name(), info.Size()})
		s.bytes += info.Size()
	}
	return s.shrink()
}

// Add keeps a letter, and returns false for one that is too large to be kept.
func (s *Store) Add(l Letter) (kept bool, err error) {
	if int64(len(l.Body)) > s.opts.Each {
		s.mu.Lock()
		s.dropped++
		s.mu.Unlock()
		return false, nil
	}
	l.ID = ""
	plain, err := json.Marshal(l)
	if err != nil {
		return false, err
	}
	sealed := s.seal.Seal(nil, nil, plain, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	name := fmt.Sprintf("%020d-%06d-%s%s", l.Received.UnixNano(), s.serial%1e6, hex.EncodeToString(random[:]), suffix)
	if err := s.root.WriteFile(name, sealed, 0o600); err != nil {
		return false, errors.Join(err, s.root.Remove(name))
	}
	s.entries = append(s.entries, entry{name, int64(len(sealed))})
	s.bytes += int64(len(sealed))
	return true, s.shrink()
}

// shrink drops the oldest letters until the rest fits.
func (s *Store) shrink() error {
	for len(s.entries) > 0 && (len(s.entries) > s.opts.Count || s.bytes > s.opts.Bytes) {
		if err := s.remove(0); err != nil {
			return err
		}
		s.dropped++
	}
	return nil
}

func (s *Store) remove(i int) error {
	if err := s.root.Remove(s.entries[i].name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.bytes -= s.entries[i].size
	s.entries = slices.Delete(s.entries, i, i+1)
	return nil
}

// Stats says how many letters are kept, how many bytes they take, and how many were dropped since Open.
func (s *Store) Stats() (count int, bytes, dropped int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries), s.bytes, s.dropped
}

// IDs lists the letters, oldest first.
func (s *Store) IDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, len(s.entries))
	for i, e := range s.entries {
		ids[i] = strings.TrimSuffix(e.name, suffix)
	}
	return ids
}

// Get reads a letter. One that is not there is CodeNotFound; one that another key sealed, or that is damaged, CodeInvalid.
func (s *Store) Get(id string) (Letter, error) {
	s.mu.Lock()
	known := slices.ContainsFunc(s.entries, func(e entry) bool { return e.name == id+suffix })
	s.mu.Unlock()
	if !known {
		return Letter{}, flows.NewError(flows.CodeNotFound, fmt.Sprintf("no dead letter %.80q", id))
	}
	sealed, err := s.root.ReadFile(id + suffix)
	if err != nil {
		return Letter{}, err
	}
	plain, err := s.seal.Open(nil, nil, sealed, nil)
	if err != nil {
		return Letter{}, &flows.Error{Code: flows.CodeInvalid, Message: "the dead letter " + id + " is damaged, or was sealed with another key", Err: err}
	}
	var l Letter
	if err := json.Unmarshal(plain, &l); err != nil {
		return Letter{}, err
	}
	l.ID = id
	return l, nil
}

// Delete removes a letter; one that is not there is no error.
func (s *Store) Delete(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.entries, func(e entry) bool { return e.name == id+suffix }); i >= 0 {
		return s.remove(i)
	}
	return nil
}
