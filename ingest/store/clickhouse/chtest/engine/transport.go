//go:build linux && amd64

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// helloQuery is the driver's first query; its answer decides how later blocks are decoded.
const helloQuery = "SELECT displayName(), version(), revision(), timezone()"

// protocolParams are URL parameters of the HTTP interface that are not settings.
var protocolParams = map[string]bool{
	"database": true, "default_format": true, "client_protocol_version": true, "query": true, "query_id": true,
	"quota_key": true, "compress": true, "decompress": true, "wait_end_of_query": true, "session_id": true,
	"session_timeout": true, "user": true, "password": true, "network_compression_method": true,
	"network_zstd_compression_level": true, "http_zlib_compression_level": true, "enable_http_compression": true,
	"send_progress_in_http_headers": true,
}

var (
	formatClause  = regexp.MustCompile(`(?is)\s+FORMAT\s+(\w+)\s*;?\s*$`)
	insertClause  = regexp.MustCompile(`(?is)^\s*INSERT\s`)
	selectClause  = regexp.MustCompile(`(?is)^\s*(SELECT|WITH|\()`)
	exceptionCode = regexp.MustCompile(`^Code: (\d+)`)
	settingName   = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	errReaderGone = errors.New("the reader closed the result")
)

// RoundTrip answers one request of ClickHouse's HTTP interface from the engine.
func (e *Engine) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		req.Body = http.NoBody
	}
	defer req.Body.Close()
	q := req.URL.Query()
	sql, data := q.Get("query"), io.Reader(req.Body)
	if sql == "" {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		sql, data = string(body), nil
	}
	if sql == helloQuery {
		return e.hello(req)
	}
	if q.Get("compress") == "1" || q.Get("decompress") == "1" {
		return failure(req, exception(48, "compression is not supported by the test engine")), nil
	}
	s, err := e.acquire(req.Context())
	if err != nil {
		return nil, err
	}
	params, err := s.configure(q)
	if err != nil {
		e.release(s)
		return failure(req, err), nil
	}
	format := q.Get("default_format")
	if format == "" {
		format = "TabSeparated"
	}
	switch {
	case data != nil && insertClause.MatchString(sql):
		defer e.release(s)
		return insertInto(req, s.conn, sql, data)
	case selectClause.MatchString(sql) && !formatClause.MatchString(sql):
		return e.selectFrom(req, s, sql, format, params)
	default:
		defer e.release(s)
		result, err := s.conn.query(sql, format, params)
		if err != nil {
			return failure(req, err), nil
		}
		return success(req, io.NopCloser(bytes.NewReader(result)), int64(len(result))), nil
	}
}

// configure applies the request's database and settings to the connection and returns its query parameters.
func (s *session) configure(q url.Values) (map[string]string, error) {
	if db := q.Get("database"); db != "" && db != s.database {
		if err := s.conn.exec("USE `" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(db) + "`"); err != nil {
			return nil, err
		}
		s.database = db
	}
	params := map[string]string{}
	var set []string
	for name, values := range q {
		switch {
		case strings.HasPrefix(name, "param_"):
			params[strings.TrimPrefix(name, "param_")] = values[0]
		case protocolParams[name]:
		case !settingName.MatchString(name):
			return nil, exception(115, fmt.Sprintf("unknown setting %q", name))
		default:
			set = append(set, name+"='"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(values[0])+"'")
			s.changed = append(s.changed, name)
		}
	}
	if len(set) == 0 {
		return params, nil
	}
	slices.Sort(set)
	return params, s.conn.exec("SET " + strings.Join(set, ", "))
}

// exception is an error as ClickHouse words it.
func exception(code int, text string) error { return fmt.Errorf("%s: %d. %s", "Code", code, text) }

func insertInto(req *http.Request, c *conn, sql string, data io.Reader) (*http.Response, error) {
	format := "Native"
	if m := formatClause.FindStringSubmatchIndex(sql); m != nil {
		format, sql = sql[m[2]:m[3]], sql[:m[0]]
	}
	err := c.insert(sql, format, data)
	var broken *bodyError
	switch {
	case errors.As(err, &broken):
		return nil, broken.err
	case err != nil:
		return failure(req, err), nil
	}
	return success(req, http.NoBody, 0), nil
}

// selectFrom streams a result. The session goes back to the pool when the last chunk was taken, the reader closed
// the body, or the request's context ended.
func (e *Engine) selectFrom(req *http.Request, s *session, sql, format string, params map[string]string) (*http.Response, error) {
	ctx := req.Context()
	pr, pw := io.Pipe()
	started := make(chan error, 1)
	e.queries.Add(1)
	go func() {
		defer e.queries.Done()
		defer e.release(s)
		first := true
		err := s.conn.each(sql, format, params, func(chunk []byte) error {
			if first {
				first = false
				started <- nil
			}
			if _, err := pw.Write(chunk); err != nil {
				return errReaderGone
			}
			return ctx.Err()
		})
		if first {
			started <- err
		}
		pw.CloseWithError(err)
	}()
	select {
	case err := <-started:
		if err != nil {
			return failure(req, err), nil
		}
		return success(req, pr, -1), nil
	case <-ctx.Done():
		// Cutting the pipe makes the producer fail on its first write, cancel the query and release the session.
		pr.CloseWithError(ctx.Err())
		return nil, ctx.Err()
	}
}

// hello answers the driver's first query. It reports protocol revision 0, so that the driver decodes every later
// block in the plain Native layout, which is what the library writes.
func (e *Engine) hello(req *http.Request) (*http.Response, error) {
	answer, err := e.keep.query("SELECT version(), timezone()", "TabSeparated", nil)
	if err != nil {
		return failure(req, err), nil
	}
	version, zone, _ := strings.Cut(strings.TrimSpace(string(answer)), "\t")
	block := proto.NewBlock()
	for _, c := range []struct {
		name string
		kind column.Type
	}{{"displayName", "String"}, {"version", "String"}, {"revision", "UInt32"}, {"timezone", "String"}} {
		if err := block.AddColumn(c.name, c.kind); err != nil {
			return nil, err
		}
	}
	if err := block.Append("embedded", version, uint32(0), zone); err != nil {
		return nil, err
	}
	var buf chproto.Buffer
	if err := block.Encode(&buf, clickhouse.ClientTCPProtocolVersion); err != nil {
		return nil, err
	}
	return success(req, io.NopCloser(bytes.NewReader(buf.Buf)), int64(len(buf.Buf))), nil
}

func success(req *http.Request, body io.ReadCloser, length int64) *http.Response {
	return response(req, http.StatusOK, http.Header{}, body, length)
}

func failure(req *http.Request, err error) *http.Response {
	text, header := err.Error(), http.Header{}
	if m := exceptionCode.FindStringSubmatch(text); m != nil {
		header.Set("X-ClickHouse-Exception-Code", m[1])
	}
	return response(req, http.StatusInternalServerError, header, io.NopCloser(strings.NewReader(text)), int64(len(text)))
}

func response(req *http.Request, status int, header http.Header, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Request: req, ContentLength: length, Body: body,
	}
}
