package app

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"pave/flows"
	"pave/ingest"
)

// lowDisk is the free space under which nothing more is recorded: 256 MiB, or 5 % of a disk that is small.
const lowDisk = 256 << 20

// diskCheck is how long one look at the disk is believed.
const diskCheck = time.Second

// diskRetry is when senders are told to come again: space does not come back at once.
const diskRetry = 10 * time.Second

// disk watches the free space of the data directory.
type disk struct {
	dir string
	// space tells size and free bytes of the directory's file system; an error means that it cannot tell.
	space func(dir string) (size, free uint64, err error)
	now   func() time.Time

	mu   sync.Mutex
	at   time.Time
	full error
}

func watchDisk(dir string) *disk { return &disk{dir: dir, space: statfs, now: time.Now} }

func statfs(dir string) (size, free uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return uint64(s.Blocks) * uint64(s.Bsize), uint64(s.Bavail) * uint64(s.Bsize), nil
}

// admit refuses input while the disk is low. It is called for every request and looks at most once a second.
func (d *disk) admit() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.now(); now.Sub(d.at) >= diskCheck {
		d.at, d.full = now, d.look()
	}
	return d.full
}

func (d *disk) look() error {
	size, free, err := d.space(d.dir)
	if err != nil || size == 0 || free >= min(lowDisk, size/20) {
		return nil // a file system that cannot tell is used until a write fails
	}
	return &flows.Error{Code: flows.CodeFull, Err: &ingest.RetryError{After: diskRetry}, Message: fmt.Sprintf(
		"the disk of the data directory has %d MiB free; nothing is recorded until there is more, and what is recorded can be read", free>>20)}
}
