package deadletter

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
)

var t0 = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func letter(i int) Letter {
	return Letter{Received: t0.Add(time.Duration(i) * time.Second), Tenant: "t", Signal: "traces", Encoding: "json", Reason: "broken", Body: []byte(fmt.Sprintf("canary body %d", i))}
}

func open(t *testing.T, dir string, opts Options) *Store {
	s, err := Open(dir, []byte("key"), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestLettersAreKeptSealedAndReplayed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "letters")
	s := open(t, dir, Options{})
	for i := range 3 {
		kept, err := s.Add(letter(i))
		require.NoError(t, err)
		require.True(t, kept)
	}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			raw, err := os.ReadFile(filepath.Join(dir, path))
			require.NoError(t, err)
			require.False(t, bytes.Contains(raw, []byte("canary")), "what was never redacted is not readable on disk")
		}
		return err
	}))
	again := open(t, dir, Options{})
	ids := again.IDs()
	require.Len(t, ids, 3)
	got, err := again.Get(ids[0])
	require.NoError(t, err)
	want := letter(0)
	want.ID = ids[0]
	require.Equal(t, want, got)

	require.NoError(t, again.Delete(ids[0]))
	for _, id := range ids[2:] {
		require.NoError(t, again.Delete(id))
	}
	require.Equal(t, ids[1:2], again.IDs())

	other, err := Open(dir, []byte("other"), Options{})
	require.NoError(t, err)
	_, err = other.Get(ids[1])
	require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
	require.NoError(t, other.Close())
	for _, id := range []string{"../x", "missing", ids[0]} {
		_, err = again.Get(id)
		require.Equal(t, flows.CodeNotFound, flows.CodeOf(err), id)
		require.NoError(t, again.Delete(id))
	}
}

func TestBounds(t *testing.T) {
	s := open(t, t.TempDir(), Options{Count: 3, Each: 20})
	for i := range 5 {
		_, err := s.Add(letter(i))
		require.NoError(t, err)
	}
	count, _, dropped := s.Stats()
	require.Equal(t, []int64{3, 2}, []int64{int64(count), dropped})
	got, err := s.Get(s.IDs()[0])
	require.NoError(t, err)
	require.Equal(t, "canary body 2", string(got.Body), "the oldest go")
	large := letter(9)
	large.Body = make([]byte, 21)
	kept, err := s.Add(large)
	require.NoError(t, err)
	require.False(t, kept)

	small := open(t, t.TempDir(), Options{Bytes: 1000})
	for i := range 20 {
		_, err := small.Add(letter(i))
		require.NoError(t, err)
	}
	_, size, _ := small.Stats()
	require.LessOrEqual(t, size, int64(1000))
	require.NotEmpty(t, small.IDs())
}

func TestConcurrentUse(t *testing.T) {
	s := open(t, t.TempDir(), Options{Count: 10})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 20 {
				if _, err := s.Add(letter(w*20 + i)); err != nil {
					t.Error(err)
				}
				for _, id := range s.IDs() {
					if _, err := s.Get(id); err != nil && flows.CodeOf(err) != flows.CodeNotFound && !errors.Is(err, fs.ErrNotExist) {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, s.IDs(), 10)
}
