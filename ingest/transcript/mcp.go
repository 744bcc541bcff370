package transcript

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"pave/ingest/rawjson"
)

// mcpLine is a JSON-RPC message with what the log line around it says.
type mcpLine struct {
	message   []byte
	session   string
	direction string
	at        time.Time
}

// mcpLog pairs requests and responses. Ids are those of one connection and one direction; they may start again.
type mcpLog struct {
	s           *sink
	in          *input
	connections map[string]*mcpConnection
	order       []*mcpConnection
	restarts    int
}

type mcpConnection struct {
	*dialogue
	started bool
	open    map[string]mcpRequest // direction and id -> request
}

type mcpRequest struct {
	place     int
	direction string
}

// mcp imports a log of MCP's JSON-RPC messages, one or a batch a line, bare or inside an object with a time, a direction
// and a session. The session is the Mcp-Session-Id, else the connection: an initialize request starts one.
func (s *sink) mcp(in *input) error {
	log := &mcpLog{s: s, in: in, connections: make(map[string]*mcpConnection)}
	err := s.documents(in, rawjson.Auto, func(raw []byte, _, line int) error {
		l, ok := unwrapMCP(raw)
		if !ok {
			return fmt.Errorf("%w: no JSON-RPC message", errRun)
		}
		var err error
		each := func(message []byte) bool {
			err = log.message(&l, message, line)
			return err == nil
		}
		if rawjson.Kind(l.message) == '[' {
			rawjson.Elements(l.message, each)
		} else {
			each(l.message)
		}
		return err
	})
	for _, c := range log.order {
		if err == nil {
			err = c.finish()
		}
	}
	return err
}

// unwrapMCP finds the message in a log line.
func unwrapMCP(raw []byte) (l mcpLine, ok bool) {
	raw = bytes.TrimSpace(raw)
	if rawjson.Kind(raw) == '[' || rawjson.Get(raw, "jsonrpc") != nil {
		l.message = raw
	}
	for _, name := range []string{"message", "payload", "data", "body", "msg", "raw", "frame"} {
		inner := rawjson.Get(raw, name)
		if rawjson.Kind(inner) == '"' {
			if contained, isJSON := rawjson.Contained(rawjson.Text(inner), rawjson.Limits{}); isJSON {
				inner = contained
			}
		}
		if l.message == nil && (rawjson.Kind(inner) == '[' || rawjson.Get(inner, "jsonrpc") != nil) {
			l.message = inner
		}
	}
	if l.message == nil {
		return l, false
	}
	names := []string{"mcp-session-id", "Mcp-Session-Id", "mcp_session_id", "session_id", "sessionId", "session", "connection_id", "connectionId", "connection"}
	for _, holder := range [][]byte{raw, rawjson.Get(raw, "headers")} {
		for _, name := range names {
			l.session = cmp.Or(l.session, bare(rawjson.Get(holder, name)))
		}
	}
	for _, name := range []string{"direction", "dir", "from", "source", "sender"} {
		l.direction = cmp.Or(l.direction, rawjson.Text(rawjson.Get(raw, name)))
	}
	for _, name := range []string{"timestamp", "time", "ts", "@timestamp"} {
		if l.at.IsZero() {
			l.at = timeOf(rawjson.Get(raw, name))
		}
	}
	return l, true
}

func (log *mcpLog) connection(session string, restart bool) *mcpConnection {
	c := log.connections[session]
	if c != nil && !(restart && session == "" && c.started) {
		return c
	}
	id := session
	if session == "" {
		if id = log.in.session; log.restarts > 0 {
			id += "#" + strconv.Itoa(log.restarts)
		}
		log.restarts++
	}
	c = &mcpConnection{dialogue: log.s.session(log.in, id, "file/mcp"), open: make(map[string]mcpRequest)}
	log.connections[session] = c
	log.order = append(log.order, c)
	return c
}

func (log *mcpLog) message(l *mcpLine, raw []byte, line int) error {
	method, id := rawjson.Text(rawjson.Get(raw, "method")), rawjson.Get(raw, "id")
	c := log.connection(l.session, method == "initialize")
	c.started = true
	switch {
	case method == "tools/call" && id != nil:
		c.template.Metadata = log.in.provenance(line)
		params := rawjson.Get(raw, "params")
		c.turn++ // what asked for it is not in the log: each is a turn of its own
		args := rawjson.Get(params, "arguments")
		if args == nil {
			args = []byte("{}")
		}
		place := c.call("", rawjson.Text(rawjson.Get(params, "name")), args, l.at)
		if place >= 0 {
			c.open[string(id)] = mcpRequest{place, l.direction}
		}
	case method == "" && id != nil:
		request, known := c.open[string(id)]
		if known && (l.direction == "" || request.direction == "" || !strings.EqualFold(l.direction, request.direction)) {
			delete(c.open, string(id))
			c.respond(request.place, raw, l.at)
		}
	}
	if err := c.settle(); err != nil {
		return err
	}
	return c.named()
}

// respond completes the call at the place.
func (c *mcpConnection) respond(place int, raw []byte, at time.Time) {
	for i, p := range c.calls {
		if p == place {
			c.calls = append(c.calls[:i], c.calls[i+1:]...)
			break
		}
	}
	e := c.at(place)
	if e == nil {
		return
	}
	if failure := rawjson.Get(raw, "error"); rawjson.Kind(failure) == '{' {
		c.complete(e, outcome{failed: true, message: cmp.Or(rawjson.Text(rawjson.Get(failure, "message")), string(failure)), at: at})
		return
	}
	result := rawjson.Get(raw, "result")
	o := outcome{result: rawjson.Get(result, "structuredContent"), failed: rawjson.Kind(rawjson.Get(result, "isError")) == 't', at: at}
	content := resultContent(rawjson.Get(result, "content"))
	if o.result == nil || rawjson.Kind(o.result) == 'n' {
		o.result = content
	}
	if o.failed {
		o.message = rawjson.Text(content)
	}
	c.complete(e, o)
}
