package flows

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is a semantic version (SemVer 2.0.0). The zero value is 0.0.0.
type Version struct {
	Major, Minor, Patch uint64
	Pre                 string // "rc.1", without the hyphen
	Build               string // "sha.5", without the plus; ignored in order
}

var semver = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?$`)

// ParseVersion reads MAJOR.MINOR.PATCH with optional -pre and +build parts. Its error is an *Error that wraps
// CWInvalidVersion.
func ParseVersion(s string) (Version, error) {
	bad := &Error{Code: CodeInvalid, Message: fmt.Sprintf("version %q is not a semantic version; write MAJOR.MINOR.PATCH, as in 1.2.0", s), Err: CWInvalidVersion}
	m := semver.FindStringSubmatch(s)
	if m == nil || !validIdentifiers(m[4], true) || !validIdentifiers(m[5], false) {
		return Version{}, bad
	}
	v := Version{Pre: m[4], Build: m[5]}
	for i, part := range []*uint64{&v.Major, &v.Minor, &v.Patch} {
		n, err := strconv.ParseUint(m[i+1], 10, 64)
		if err != nil {
			return Version{}, bad
		}
		*part = n
	}
	return v, nil
}

// validIdentifiers refuses empty dot-separated identifiers, and leading zeros of numeric ones in a pre-release.
func validIdentifiers(s string, pre bool) bool {
	if s == "" {
		return true
	}
	for id := range strings.SplitSeq(s, ".") {
		if id == "" || pre && len(id) > 1 && id[0] == '0' && isNumeric(id) {
			return false
		}
	}
	return true
}

func isNumeric(s string) bool { return strings.Trim(s, "0123456789") == "" }

func (v Version) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
	if v.Pre != "" {
		s += "-" + v.Pre
	}
	if v.Build != "" {
		s += "+" + v.Build
	}
	return s
}

// Compare orders by precedence: -1, 0 or 1. A pre-release comes before its release; build parts do not count.
func (v Version) Compare(w Version) int {
	if c := cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch)); c != 0 {
		return c
	}
	switch {
	case v.Pre == w.Pre:
		return 0
	case v.Pre == "":
		return 1
	case w.Pre == "":
		return -1
	}
	return comparePre(strings.Split(v.Pre, "."), strings.Split(w.Pre, "."))
}

func comparePre(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if c := compareIdentifiers(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareIdentifiers: numbers by value and before words, words by ASCII.
func compareIdentifiers(a, b string) int {
	aNum, bNum := isNumeric(a), isNumeric(b)
	switch {
	case aNum && bNum:
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	case aNum:
		return -1
	case bNum:
		return 1
	}
	return strings.Compare(a, b)
}
