package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"pave/flows"
)

// lockFile is the lock of a data directory; it names the holder while it is held.
const lockFile = "pave.lock"

// lockWait is how long to wait for a holder that is no server: another command, or a server that is starting.
const lockWait = 10 * time.Second

// lockPatience is how long a wait needs no explanation.
const lockPatience = time.Second

// lockPoll is the interval of trying again.
const lockPoll = 50 * time.Millisecond

// Holder is the process that has a data directory.
type Holder struct {
	PID     int       `json:"pid"`
	Address string    `json:"address,omitempty"` // http://host:port of a server, "" for another command
	Since   time.Time `json:"since"`
}

// HeldError says that another process has the data directory.
type HeldError struct {
	Dir string
	Holder
}

func (e *HeldError) Error() string {
	if e.Address == "" {
		return fmt.Sprintf("the data directory %s is in use by process %d; wait for it or take another --data-dir", e.Dir, e.PID)
	}
	return fmt.Sprintf("the data directory %s is in use by the server at %s (process %d)", e.Dir, e.Address, e.PID)
}

// Unwrap gives the error its code.
func (e *HeldError) Unwrap() error { return flows.NewError(flows.CodeConflict, e.Error()) }

// ServerOf is the address of the server that has a data directory, "" when none has.
func ServerOf(dir string) (address string, err error) {
	file := flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_RDONLY))
	free, err := file.TryRLock()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case free:
		return "", file.Unlock()
	}
	return readHolder(dir).Address, nil
}

// lock is the held lock of a data directory.
type lock struct {
	file   *flock.Flock
	holder Holder
}

// acquire locks dir. A server that holds it is reported at once, any other holder after lockWait; waiting is told of one
// that is waited for longer than commands take.
func acquire(ctx context.Context, dir string, waiting func(Holder)) (*lock, error) {
	file := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	began, told := time.Now(), false
	for {
		ok, err := file.TryLock()
		if err != nil {
			return nil, fmt.Errorf("lock data directory: %w", err)
		}
		if ok {
			l := &lock{file: file, holder: Holder{PID: os.Getpid(), Since: time.Now().UTC()}}
			return l, l.write()
		}
		holder := readHolder(dir)
		waited := time.Since(began)
		if holder.Address != "" || waited > lockWait {
			return nil, errors.Join(&HeldError{Dir: dir, Holder: holder}, file.Close())
		}
		if waited > lockPatience && !told {
			told = true
			waiting(holder)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(lockPoll):
		}
	}
}

// readHolder reads who holds the lock; a file that is being written counts as an unknown holder.
func readHolder(dir string) Holder {
	raw, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		return Holder{}
	}
	var h Holder
	if json.Unmarshal(raw, &h) != nil {
		return Holder{}
	}
	return h
}

// announce names the server's address in the lock file.
func (l *lock) announce(address string) error {
	l.holder.Address = address
	return l.write()
}

func (l *lock) write() error {
	raw, err := json.Marshal(l.holder)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.file.Path(), raw, 0o600); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}

// release empties the file and gives the lock up. The file stays: removing it would let two processes lock two
// files of one name.
func (l *lock) release() error {
	return errors.Join(os.Truncate(l.file.Path(), 0), l.file.Close())
}
