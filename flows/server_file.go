package flows

import (
	"strings"

	"pave/flows/value"
)

// KindMCPServer is the kind of a document that declares an MCP server.
const KindMCPServer = "MCPServer"

// Transports of MCP servers.
const (
	TransportStdio = "stdio"
	TransportHTTP  = "streamable_http"
)

// MCPServer says how a server of the Model Context Protocol is reached. Values of Env and Headers may hold
// {{secret:NAME}}. An MCPServer is immutable after construction.
type MCPServer struct {
	Name      string // 1-128 of A-Za-z0-9_.-
	Transport string // TransportStdio or TransportHTTP

	// stdio: the program and its arguments, and what its environment has beside PATH, HOME and the like
	Command []string
	Env     map[string]string

	// streamable_http
	URL     string
	Headers map[string]string
}

func (r *reader) mcpServer(path string, v any) *MCPServer {
	o, ok := r.object(path, v)
	if !ok {
		return nil
	}
	o.needText("kind")
	s := &MCPServer{Name: o.needText("name"), Transport: choice(o, "transport", TransportStdio, TransportHTTP)}
	if _, given := o.get("name"); given && !toolName.MatchString(s.Name) {
		o.fail(o.at("name"), "invalid", "a name has 1 to 128 of A-Z a-z 0-9 _ . -")
	}
	switch s.Transport {
	case TransportStdio:
		s.Command, s.Env = o.texts("command"), o.textMap("env")
		if len(s.Command) == 0 {
			o.missing("command")
		}
	case TransportHTTP:
		s.URL, s.Headers = o.needText("url"), o.textMap("headers")
		if s.URL != "" && !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://") {
			o.fail(o.at("url"), "invalid", "must start with http:// or https://")
		}
	default:
		if _, given := o.get("transport"); !given {
			o.fail(o.at("transport"), "missing", "is required: %s or %s", TransportStdio, TransportHTTP)
		}
		return nil
	}
	o.close()
	return s
}

// EncodeMCPServer writes one server document.
func EncodeMCPServer(s *MCPServer, format Format) ([]byte, error) {
	return write(serverTree(s), format)
}

// MarshalJSON writes the server document, compact.
func (s *MCPServer) MarshalJSON() ([]byte, error) { return value.Encode(serverTree(s)), nil }

// UnmarshalJSON reads one server document.
func (s *MCPServer) UnmarshalJSON(data []byte) error {
	file, err := ParseToolFile(data)
	if err != nil {
		return err
	}
	if len(file.Servers) != 1 || len(file.Tools) != 0 {
		return formatError("expected one MCP server")
	}
	*s = *file.Servers[0]
	return nil
}

func serverTree(s *MCPServer) value.Members {
	var b fields
	b.add("kind", KindMCPServer)
	b.add("name", s.Name)
	b.add("transport", s.Transport)
	if s.Transport == TransportHTTP {
		b.add("url", s.URL)
		b.addIf(s.Headers != nil, "headers", stringMap(s.Headers))
		return b.members
	}
	b.add("command", anyList(s.Command))
	b.addIf(s.Env != nil, "env", stringMap(s.Env))
	return b.members
}
