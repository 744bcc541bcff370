package app

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"pave/flows"
)

// lowDisk is the free space under which nothing more is recorded: 256 MiB, or 5 % of a disk that is small.
const lowDisk = 256 << 20

// diskCheck is how long one look at the disk is believed.
const diskCheck = time.Second

// disk watches the free space of the data directory.
type disk struct {
	dir string

	mu   sync.Mutex
	at   time.Time
	full error
}

// admit refuses input while the disk is low. It is called for every request and looks at most once a second.
func (d *disk) admit() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.at) > diskCheck {
		d.at, d.full = now, d.look()
	}
	return d.full
}

func (d *disk) look() error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &s); err != nil {
		return nil // a file system that cannot tell is used until a write fails
	}
	size, free := uint64(s.Blocks)*uint64(s.Bsize), uint64(s.Bavail)*uint64(s.Bsize)
	if size == 0 || free >= min(lowDisk, size/20) {
		return nil
	}
	return flows.NewError(flows.CodeFull, fmt.Sprintf(
		"the disk of the data directory has %d MiB free; nothing is recorded until there is more", free>>20))
}
