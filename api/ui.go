package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
)

// The web UI is built from web/ (see its README) and committed, so that building pave needs no Node.
//
//go:embed all:web/dist
var uiFiles embed.FS

const uiPath = "/ui/"

// uiPolicy lets the pages load their own files and call their own API, and nothing else: no inline script or style,
// no frames, and no strings that become markup (trusted types).
const uiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// isUI reports whether a path belongs to the web UI. The root of the service leads there.
func isUI(p string) bool { return p == "/" || p == "/ui" || strings.HasPrefix(p, uiPath) }

// newUI serves the built files. Every path that is no file is a page of the application, which knows its own paths.
func newUI() http.Handler {
	built := builtFiles()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", uiPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the web UI is read with GET", http.StatusMethodNotAllowed)
			return
		}
		if !strings.HasPrefix(r.URL.Path, uiPath) {
			http.Redirect(w, r, uiPath, http.StatusFound)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, uiPath)
		if !strings.HasPrefix(name, assetsDir) {
			name = "index.html"
		}
		file, ok := built[name]
		if !ok {
			http.Error(w, "there is no such file of the web UI; reload the page", http.StatusNotFound)
			return
		}
		file.serve(w, r)
	})
}

// assetsDir holds the files whose names tell their content.
const assetsDir = "assets/"

// uiFile is one built file in the forms that it is sent in; the compressed ones are made when they are first asked for.
type uiFile struct {
	kind, cache, tag string
	plain            []byte
	packed           map[string]func() []byte // by content coding
}

// codings are those that the files are sent in, the best first.
var codings = []struct {
	name string
	pack func(io.Writer) io.WriteCloser
}{
	{"br", func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, brotli.DefaultCompression) }},
	{"gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }},
}

// builtFiles are the embedded files by name.
func builtFiles() map[string]*uiFile {
	out := make(map[string]*uiFile)
	files, err := fs.Sub(uiFiles, "web/dist")
	if err == nil {
		err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(files, name)
			out[name] = newUIFile(name, content)
			return err
		})
	}
	if err != nil {
		panic(err) // embedded files can be read
	}
	return out
}

func newUIFile(name string, content []byte) *uiFile {
	sum := sha256.Sum256(content)
	f := &uiFile{kind: mime.TypeByExtension(path.Ext(name)), cache: "no-cache", tag: hex.EncodeToString(sum[:12]), plain: content, packed: make(map[string]func() []byte)}
	if strings.HasPrefix(name, assetsDir) {
		f.cache = "public, max-age=31536000, immutable"
	}
	for _, coding := range codings {
		f.packed[coding.name] = sync.OnceValue(func() []byte {
			var b bytes.Buffer
			w := coding.pack(&b)
			_, _ = w.Write(content) // a buffer takes everything
			_ = w.Close()
			return b.Bytes()
		})
	}
	return f
}

// serve sends the file in the best form that the request accepts, or says that the sender has it already.
func (f *uiFile) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", f.cache)
	h.Set("Vary", "Accept-Encoding")
	content, tag := f.plain, f.tag
	for _, coding := range codings {
		if packed := f.packed[coding.name]; acceptsCoding(r.Header.Get("Accept-Encoding"), coding.name) {
			content, tag = packed(), f.tag+"-"+coding.name
			h.Set("Content-Encoding", coding.name)
			break
		}
	}
	tag = `"` + tag + `"`
	h.Set("ETag", tag)
	if known := strings.Split(r.Header.Get("If-None-Match"), ","); slices.ContainsFunc(known, func(t string) bool {
		return strings.TrimPrefix(strings.TrimSpace(t), "W/") == tag
	}) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(content) // a reader that has gone needs no answer
	}
}

// acceptsCoding reports whether an Accept-Encoding header names a coding and does not rule it out with a weight of zero.
func acceptsCoding(header, coding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), coding) {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return err != nil || q > 0
	}
	return false
}
