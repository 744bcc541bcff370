package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"pave/api/gen"
)

// sumLen is how much of its signature a cursor carries, in bytes.
const sumLen = 16

// seal signs the cursors of lists: one is good for the operation, the filters and the tenant that gave it, and cannot
// be made by hand. What a cursor says is the business of the list's store.
type seal struct{ key []byte }

// newSeal takes the key of an installation; without one, cursors are good for this process.
func newSeal(key []byte) seal {
	if len(key) == 0 {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // crypto/rand never fails
	}
	return seal{key}
}

// sum is the signature of a cursor in the place where it is used.
func (s seal) sum(place, cursor string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte("cursor\x00" + place + "\x00" + cursor))
	return mac.Sum(nil)[:sumLen]
}

func (s seal) close(place, cursor string) string {
	return base64.RawURLEncoding.EncodeToString(s.sum(place, cursor)) + "." + cursor
}

func (s seal) open(place, sealed string) (string, error) {
	text, cursor, ok := strings.Cut(sealed, ".")
	sum, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil || !hmac.Equal(sum, s.sum(place, cursor)) {
		return "", errCursor
	}
	return cursor, nil
}

// placeOf names the list that a request reads: operation, tenant and every parameter that selects rows.
func placeOf(op *operation, c echo.Context) string {
	parts := []string{op.id, actorFrom(c.Request().Context()).Tenant, c.Request().URL.Path}
	query := c.QueryParams()
	for name, values := range query {
		if name != "cursor" && name != "limit" && values[0] != "" {
			parts = append(parts, name+"="+values[0])
		}
	}
	slices.Sort(parts[3:])
	return strings.Join(parts, "\x00")
}

// cursors opens the cursor of a request before its handler sees it.
func (s *Server) cursors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op == nil || !op.knows("cursor") || c.QueryParam("cursor") == "" {
			return next(c)
		}
		cursor, err := s.seal.open(placeOf(op, c), c.QueryParam("cursor"))
		if err != nil {
			return err
		}
		r := c.Request().Clone(c.Request().Context())
		query := r.URL.Query()
		query.Set("cursor", cursor)
		r.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: query.Encode()}
		c.QueryParams().Set("cursor", cursor) // echo keeps the parsed query
		c.SetRequest(r)
		return next(c)
	}
}

// sealed signs the next_cursor of an answer.
func (s *Server) sealed(next gen.StrictHandlerFunc, _ string) gen.StrictHandlerFunc {
	return func(c echo.Context, request any) (any, error) {
		op := s.operation(c)
		if op == nil || !op.knows("cursor") {
			return next(c, request)
		}
		place := placeOf(op, c)
		answer, err := next(c, request)
		if err != nil || answer == nil {
			return answer, err
		}
		v := reflect.ValueOf(answer)
		if v.Kind() != reflect.Struct {
			return answer, nil
		}
		field := v.FieldByName("NextCursor")
		if !field.IsValid() || field.Kind() != reflect.String || field.Len() == 0 {
			return answer, nil
		}
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		out.FieldByName("NextCursor").SetString(s.seal.close(place, field.String()))
		return out.Interface(), nil
	}
}
