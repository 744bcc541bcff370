package api

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pave/flows"
)

// etag writes a revision as an ETag.
func etag(revision int64) string { return strconv.Quote(strconv.FormatInt(revision, 10)) }

// ifMatch reads the revision that a change is made against; first is the lowest that such an object has. A missing
// or wildcard condition is refused: nothing is changed that was not read.
func ifMatch(header string, first int64) (int64, error) {
	header = strings.TrimSpace(header)
	if header == "" || header == "*" {
		return 0, flows.NewError(flows.CodePrecondition,
			"send the ETag of what you read in If-Match, so that a change by another is not overwritten")
	}
	revision, err := strconv.ParseInt(strings.Trim(strings.TrimPrefix(header, "W/"), `"`), 10, 64)
	if err != nil || revision < first {
		return 0, flows.NewError(flows.CodeStale, fmt.Sprintf("If-Match %s is not an ETag of this object; read it again", header))
	}
	return revision, nil
}

// pageByName cuts a page out of a list that is sorted by a unique name, for lists that are small enough to be read
// whole. The cursor is the last name of the page before, so that pages stay right while rows come and go.
func pageByName[T any](items []T, name func(T) string, limit int, cursor string) ([]T, string, error) {
	limit = pageSize(limit)
	if cursor != "" {
		last, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			return nil, "", errCursor
		}
		first, found := slices.BinarySearchFunc(items, string(last), func(item T, key string) int { return strings.Compare(name(item), key) })
		if found {
			first++
		}
		items = items[first:]
	}
	if len(items) <= limit {
		return items, "", nil
	}
	return items[:limit], base64.RawURLEncoding.EncodeToString([]byte(name(items[limit-1]))), nil
}

var errCursor = flows.NewError(flows.CodeInvalid, "the cursor is not one that this list gave",
	flows.ErrorDetail{Pointer: "cursor", Code: "invalid", Detail: "not a cursor of this list"})

// pageSize applies the default of the contract.
func pageSize(limit int) int {
	if limit == 0 {
		return 50
	}
	return limit
}

// offsetCursor pages a list that does not change, such as the patterns of one pass.
func offsetCursor(id string, offset int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(id + ":" + strconv.Itoa(offset)))
}

func parseOffset(cursor, id string, length int) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, errCursor
	}
	owner, text, _ := strings.Cut(string(raw), ":")
	offset, err := strconv.Atoi(text)
	if err != nil || offset < 0 || offset > length {
		return 0, errCursor
	}
	if owner != id {
		return 0, flows.NewError(flows.CodeStale, "a newer pass has ended meanwhile; start again without a cursor")
	}
	return offset, nil
}
