//go:build linux && amd64

package engine

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library holds the C entry points that the engine uses. Sizes and counts are size_t, handles are opaque.
type library struct {
	connect       func(argc int32, argv unsafe.Pointer) uintptr
	closeConn     func(conn uintptr)
	query         func(conn uintptr, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr) uintptr
	queryParams   func(conn uintptr, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr, names, nameLens, values, valueLens unsafe.Pointer, count uintptr) uintptr
	stream        func(conn uintptr, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr) uintptr
	streamParams  func(conn uintptr, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr, names, nameLens, values, valueLens unsafe.Pointer, count uintptr) uintptr
	streamFetch   func(conn, result uintptr) uintptr
	streamCancel  func(conn, result uintptr)
	destroyResult func(result uintptr)
	resultBuffer  func(result uintptr) unsafe.Pointer
	resultLength  func(result uintptr) uintptr
	resultError   func(result uintptr) unsafe.Pointer
	insert        func(conn uintptr, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr) uintptr
	insertAppend  func(stream uintptr, data unsafe.Pointer, length uintptr) int32
	insertDone    func(stream uintptr) uintptr
	insertCancel  func(stream uintptr)
	insertError   func(stream uintptr) unsafe.Pointer
	destroyInsert func(stream uintptr)
	setHandlers   func(enabled int32)

	sigaction func(sig int32, act, old unsafe.Pointer) int32 // libc
}

var (
	loadOnce sync.Once
	loaded   library
	loadErr  error
)

// load opens the library once per process; later calls answer the first one's outcome.
func load(path string) (*library, error) {
	loadOnce.Do(func() { loadErr = loaded.open(path) })
	return &loaded, loadErr
}

func (l *library) open(path string) error {
	if path == "" { // dlopen("") is the program itself
		return fmt.Errorf("%w: empty path", ErrNoLibrary)
	}
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return fmt.Errorf("the ClickHouse engine needs glibc: %w", err)
	}
	purego.RegisterLibFunc(&l.sigaction, libc, "sigaction")
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return fmt.Errorf("load ClickHouse engine: %w", err)
	}
	for name, entry := range map[string]any{
		"chdb_connect":                     &l.connect,
		"chdb_close_conn":                  &l.closeConn,
		"chdb_query_n":                     &l.query,
		"chdb_query_with_params_n":         &l.queryParams,
		"chdb_stream_query_n":              &l.stream,
		"chdb_stream_query_with_params_n":  &l.streamParams,
		"chdb_stream_fetch_result":         &l.streamFetch,
		"chdb_stream_cancel_query":         &l.streamCancel,
		"chdb_destroy_query_result":        &l.destroyResult,
		"chdb_result_buffer":               &l.resultBuffer,
		"chdb_result_length":               &l.resultLength,
		"chdb_result_error":                &l.resultError,
		"chdb_stream_insert_n":             &l.insert,
		"chdb_stream_append":               &l.insertAppend,
		"chdb_stream_done":                 &l.insertDone,
		"chdb_stream_cancel_insert":        &l.insertCancel,
		"chdb_stream_insert_error":         &l.insertError,
		"chdb_destroy_insert_stream":       &l.destroyInsert,
		"chdb_set_signal_handlers_enabled": &l.setHandlers,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return fmt.Errorf("load ClickHouse engine: %w", err)
		}
		purego.RegisterFunc(entry, symbol)
	}
	l.guarded(func() { l.setHandlers(0) })
	return nil
}

// guardedSignals are those whose handling the Go runtime or a Go program relies on.
var guardedSignals = []syscall.Signal{
	syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGILL, syscall.SIGBUS, syscall.SIGSYS, syscall.SIGFPE,
	syscall.SIGTSTP, syscall.SIGTRAP, syscall.SIGURG, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT,
	syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGPROF,
}

// guarded runs call and puts the signal dispositions back that it found. The library resets them both when its own
// handlers are disabled and on each connect; without this a nil dereference that Go would recover from hangs the
// process.
func (l *library) guarded(call func()) {
	saved := make([][256]byte, len(guardedSignals)) // larger than struct sigaction
	for i, sig := range guardedSignals {
		l.sigaction(int32(sig), nil, unsafe.Pointer(&saved[i][0]))
	}
	call()
	for i, sig := range guardedSignals {
		l.sigaction(int32(sig), unsafe.Pointer(&saved[i][0]), nil)
	}
}

// cString copies a NUL-terminated C string.
func cString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
