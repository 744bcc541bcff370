//go:build linux && amd64

package engine

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"
	"unsafe"
)

var errClosed = errors.New("engine connection is closed")

// conn is one connection to the engine. It runs one statement at a time; the lock and the closed flag keep a late
// caller from using a freed handle, which would kill the process.
type conn struct {
	lib *library
	mu  sync.Mutex
	// owner is the handle that close takes, handle the one that statements take.
	owner, handle uintptr
	closed        bool
}

// dial opens a connection; args are ClickHouse command line arguments.
func dial(lib *library, args ...string) (*conn, error) {
	argv := append([]string{"clickhouse"}, args...)
	var pin runtime.Pinner
	defer pin.Unpin()
	ptrs := make([]*byte, len(argv)+1)
	for i, a := range argv {
		buf := append([]byte(a), 0)
		pin.Pin(&buf[0])
		ptrs[i] = &buf[0]
	}
	var owner uintptr
	lib.guarded(func() { owner = lib.connect(int32(len(argv)), unsafe.Pointer(&ptrs[0])) })
	if owner == 0 {
		return nil, errors.New("the ClickHouse engine did not start (its reason is on standard error)")
	}
	handle := **(**uintptr)(unsafe.Pointer(&owner)) // *owner, without converting an integer to a pointer
	return &conn{lib: lib, owner: owner, handle: handle}, nil
}

func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.lib.closeConn(c.owner)
	}
}

// query runs a statement and returns its whole result in the format.
func (c *conn) query(sql, format string, params map[string]string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	var result uintptr
	if len(params) == 0 {
		result = c.lib.query(c.handle, text(sql), uintptr(len(sql)), text(format), uintptr(len(format)))
	} else {
		p := pack(params)
		defer p.pin.Unpin()
		result = c.lib.queryParams(c.handle, text(sql), uintptr(len(sql)), text(format), uintptr(len(format)),
			unsafe.Pointer(&p.names[0]), unsafe.Pointer(&p.nameLens[0]), unsafe.Pointer(&p.values[0]), unsafe.Pointer(&p.valueLens[0]), uintptr(len(params)))
	}
	if err := c.check(result); err != nil {
		return nil, err
	}
	defer c.lib.destroyResult(result)
	return bytes.Clone(c.view(result)), nil
}

// exec runs statements that have no result worth reading.
func (c *conn) exec(sql string) error {
	_, err := c.query(sql, "Null", nil)
	return err
}

// each runs a query and calls fn for every chunk of its result. The chunk is valid until fn returns. fn's error
// cancels the query and is returned.
func (c *conn) each(sql, format string, params map[string]string, fn func([]byte) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	var stream uintptr
	if len(params) == 0 {
		stream = c.lib.stream(c.handle, text(sql), uintptr(len(sql)), text(format), uintptr(len(format)))
	} else {
		p := pack(params)
		defer p.pin.Unpin()
		stream = c.lib.streamParams(c.handle, text(sql), uintptr(len(sql)), text(format), uintptr(len(format)),
			unsafe.Pointer(&p.names[0]), unsafe.Pointer(&p.nameLens[0]), unsafe.Pointer(&p.values[0]), unsafe.Pointer(&p.valueLens[0]), uintptr(len(params)))
	}
	if err := c.check(stream); err != nil {
		return err
	}
	defer c.lib.destroyResult(stream)
	for {
		chunk := c.lib.streamFetch(c.handle, stream)
		if err := c.check(chunk); err != nil {
			return err
		}
		data := c.view(chunk)
		if len(data) == 0 {
			c.lib.destroyResult(chunk)
			return nil
		}
		err := fn(data)
		c.lib.destroyResult(chunk)
		if err != nil {
			c.lib.streamCancel(c.handle, stream)
			return err
		}
	}
}

// insert streams body, in the format, into an INSERT statement without data. A read error of the body stores
// nothing and is returned as a bodyError.
func (c *conn) insert(sql, format string, body io.Reader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	stream := c.lib.insert(c.handle, text(sql), uintptr(len(sql)), text(format), uintptr(len(format)))
	if stream == 0 {
		return errors.New("the engine refused the insert")
	}
	defer c.lib.destroyInsert(stream)
	if reason := c.lib.insertError(stream); reason != nil {
		return errors.New(cString(reason))
	}
	buf := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(body, buf)
		if n > 0 && c.lib.insertAppend(stream, unsafe.Pointer(&buf[0]), uintptr(n)) != 0 {
			reason := cString(c.lib.insertError(stream))
			c.lib.insertCancel(stream)
			return errors.New(reason)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			c.lib.insertCancel(stream)
			return &bodyError{err}
		}
	}
	result := c.lib.insertDone(stream)
	if err := c.check(result); err != nil {
		return err
	}
	c.lib.destroyResult(result)
	return nil
}

// bodyError is a failure of the request, not of the engine.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// check frees a failed result and returns its error.
func (c *conn) check(result uintptr) error {
	if result == 0 {
		return errors.New("the engine gave no result")
	}
	reason := c.lib.resultError(result)
	if reason == nil {
		return nil
	}
	err := errors.New(cString(reason))
	c.lib.destroyResult(result)
	return err
}

// view is the result's memory, valid until it is destroyed.
func (c *conn) view(result uintptr) []byte {
	n := c.lib.resultLength(result)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(c.lib.resultBuffer(result)), n)
}

// text points at a string's bytes; the callee gets the length beside it.
func text(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

// packed is a parameter set as the C interface wants it: parallel arrays, pinned until the call is over.
type packed struct {
	names, values       []*byte
	nameLens, valueLens []uintptr
	pin                 runtime.Pinner
}

func pack(params map[string]string) *packed {
	p := &packed{}
	for name, value := range params {
		n, v := append([]byte(name), 0), append([]byte(value), 0)
		p.pin.Pin(&n[0])
		p.pin.Pin(&v[0])
		p.names, p.nameLens = append(p.names, &n[0]), append(p.nameLens, uintptr(len(name)))
		p.values, p.valueLens = append(p.values, &v[0]), append(p.valueLens, uintptr(len(value)))
	}
	return p
}
