package api

import (
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
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
	files, err := fs.Sub(uiFiles, "web/dist")
	if err != nil {
		panic(err) // the embedded folder has a fixed name
	}
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
		serveUIFile(w, r, files)
	})
}

func serveUIFile(w http.ResponseWriter, r *http.Request, files fs.FS) {
	name := strings.TrimPrefix(r.URL.Path, uiPath)
	asset := strings.HasPrefix(name, "assets/")
	if !asset {
		name = "index.html"
	}
	content, err := fs.ReadFile(files, name)
	if err != nil { // also a name that is not a clean path
		http.Error(w, "there is no such file of the web UI; reload the page", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Cache-Control", "no-cache")
	if asset { // named by content
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(content) // a reader that has gone needs no answer
}
