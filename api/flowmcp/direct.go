package flowmcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/flows"
	"pave/flows/value"
	"pave/governance"
)

// direct is how calls are answered that want nothing of the protocol but their answer, which are nearly all calls: one
// message, one answer as JSON, in a session that the library has accepted lately. The library serves everything else; for
// such a call it would copy the message several times into large buffers and hand it through several goroutines, which
// costs more than all that pave does for it.
type direct struct {
	base  context.Context // of the calls
	stop  context.CancelFunc
	going sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]session // by id
	calls    map[callID]context.CancelFunc
}

// session is what the library accepted.
type session struct {
	owner   string
	version string // of the protocol, as the header says it
	seen    time.Time
}

// callID names a call of a session that has not ended.
type callID struct{ session, id string }

// lately is how long the library's word for a session counts. A call goes through the library after it, so that sessions
// with calls do not count as idle there.
const lately = idleSession / 6

// maxSessions is how many sessions are remembered before those are forgotten whose time is over.
const maxSessions = 4096

const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
)

func (d *direct) init() {
	d.base, d.stop = context.WithCancel(context.Background())
	d.sessions, d.calls = map[string]session{}, map[callID]context.CancelFunc{}
}

// close ends the calls and waits for them.
func (d *direct) close() {
	d.stop()
	d.going.Wait()
}

// saw takes note of how the library answered a request.
func (d *direct) saw(r *http.Request, owner string, status int) {
	id := r.Header.Get(headerSession)
	if id == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Method != http.MethodPost || status >= http.StatusMultipleChoices {
		if r.Method == http.MethodDelete || status == http.StatusNotFound {
			delete(d.sessions, id)
		}
		return
	}
	if len(d.sessions) >= maxSessions {
		for id, s := range d.sessions {
			if time.Since(s.seen) > lately {
				delete(d.sessions, id)
			}
		}
	}
	if len(d.sessions) < maxSessions {
		d.sessions[id] = session{owner: owner, version: r.Header.Get(headerVersion), seen: time.Now()}
	}
}

// begin registers a call, whose context ends with the server or when the client cancels it, not when the connection
// breaks: what a run did is recorded, and the client may not know it. ok is false for a session that the library must
// look at, or a call whose id is at work already.
func (d *direct) begin(r *http.Request, owner string, call callID) (ctx context.Context, end func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, known := d.sessions[call.session]
	if !known || s.owner != owner || s.version != r.Header.Get(headerVersion) || time.Since(s.seen) > lately {
		return nil, nil, false
	}
	if _, twice := d.calls[call]; twice {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	unbind := context.AfterFunc(d.base, cancel)
	d.calls[call] = cancel
	d.going.Add(1)
	return ctx, func() {
		unbind()
		cancel()
		d.mu.Lock()
		delete(d.calls, call)
		d.mu.Unlock()
		d.going.Done()
	}, true
}

// cancel ends a call for the one who owns its session.
func (d *direct) cancel(owner string, call callID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel := d.calls[call]; cancel != nil && d.sessions[call.session].owner == owner {
		cancel()
	}
}

// answerDirectly answers a request if it is one that needs no library. The request is as it was when it is not.
func (s *Server) answerDirectly(w http.ResponseWriter, r *http.Request, actor governance.Actor) bool {
	id := r.Header.Get(headerSession)
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if id == "" || r.Header.Get("Mcp-Method") != "" || media != "application/json" ||
		!strings.Contains(r.Header.Get("Accept"), "application/json") || !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = rest{bytes.NewReader(body), err, r.Body}
	if err != nil {
		return false
	}
	v, err := value.Decode(body)
	message, ok := v.(map[string]any)
	if err != nil || !ok || message["jsonrpc"] != "2.0" {
		return false
	}
	params, _ := message["params"].(map[string]any)
	switch message["method"] {
	case "notifications/cancelled":
		s.direct.cancel(owner(actor), callID{id, string(value.Encode(params["requestId"]))})
	case "tools/call":
		return s.callDirectly(w, r, actor, message["id"], params)
	}
	return false
}

func (s *Server) callDirectly(w http.ResponseWriter, r *http.Request, actor governance.Actor, id any, params map[string]any) bool {
	c := &flowCall{actor: actor, known: true, header: r.Header, session: r.Header.Get(headerSession)}
	if !c.read(params) || !plainID(id) {
		return false
	}
	ctx, end, ok := s.direct.begin(r, owner(actor), callID{r.Header.Get(headerSession), string(value.Encode(id))})
	if !ok {
		return false
	}
	defer end()
	if err := s.refresh(ctx); err != nil {
		s.log.WarnContext(ctx, "flows cannot be listed", "error", err)
	}
	name, _ := params["name"].(string)
	if c.flow = (*s.flows.Load())[name]; c.flow == nil {
		return false
	}
	result, err := s.perform(ctx, c, nil)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	if _, err := w.Write(envelope(id, result, err)); err != nil {
		s.log.DebugContext(ctx, "a client went away before its answer", "error", err)
	}
	return true
}

// read takes what a call says; ok is false when it says something that only the library knows.
func (c *flowCall) read(params map[string]any) (ok bool) {
	for key := range params {
		if key != "name" && key != "arguments" && key != "_meta" {
			return false
		}
	}
	c.input = map[string]any{}
	if given, has := params["arguments"]; has {
		if c.input, ok = given.(map[string]any); !ok {
			return false
		}
	}
	if given, has := params["_meta"]; has {
		if c.meta, ok = given.(map[string]any); !ok {
			return false
		}
	}
	_, progress := c.meta["progressToken"]
	return !progress
}

// plainID reports an id that a request may have.
func plainID(id any) bool {
	switch id.(type) {
	case string, int64:
		return true
	}
	return false
}

// envelope is a JSON-RPC answer.
func envelope(id any, result *mcp.CallToolResult, err error) []byte {
	b := value.AppendJSON([]byte(`{"jsonrpc":"2.0","id":`), id)
	if err == nil {
		return append(appendResult(append(b, `,"result":`...), result), '}')
	}
	refused := new(jsonrpc.Error)
	if !errors.As(err, &refused) {
		refused = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: string(flows.CodeInternal)}
	}
	return append(value.AppendJSON(append(b, `,"error":`...), map[string]any{"code": refused.Code, "message": refused.Message}), '}')
}

// appendResult writes a result that a call gave: texts, and structured content that is JSON already. The library's own
// encoding of it goes through reflection five times.
func appendResult(b []byte, r *mcp.CallToolResult) []byte {
	b = append(b, '{')
	if len(r.Meta) > 0 {
		b = append(value.AppendJSON(append(b, `"_meta":`...), map[string]any(r.Meta)), ',')
	}
	b = append(b, `"content":[`...)
	for i, c := range r.Content {
		if i > 0 {
			b = append(b, ',')
		}
		if text, ok := c.(*mcp.TextContent); ok {
			b = append(value.AppendJSON(append(b, `{"type":"text","text":`...), text.Text), '}')
		}
	}
	b = append(b, ']')
	if raw, ok := r.StructuredContent.(json.RawMessage); ok {
		b = append(append(b, `,"structuredContent":`...), raw...)
	}
	if r.IsError {
		b = append(b, `,"isError":true`...)
	}
	return append(b, '}')
}

// rest is a body that was read already, and how its reading ended.
type rest struct {
	io.Reader
	err error
	io.Closer
}

func (b rest) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) && b.err != nil {
		err = b.err
	}
	return n, err
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets the answer be flushed.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
