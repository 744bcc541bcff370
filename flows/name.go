package flows

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNameLength bounds a flow's name, in characters.
const maxNameLength = 128

// CheckName refuses a name that a flow cannot be registered under: people, commands and addresses have to be able to
// say NAME and NAME@VERSION. Files may hold any name, as those of the base system do. The error has the code invalid.
func CheckName(name string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	var problem string
	switch {
	case name == "":
		problem = "is empty"
	case utf8.RuneCountInString(name) > maxNameLength:
		problem = fmt.Sprintf("is longer than %d characters", maxNameLength)
	case strings.Contains(name, "@"):
		problem = "holds @, which stands before a version"
	case strings.ContainsFunc(name, unprintable):
		problem = "holds a character that cannot be printed"
	case strings.TrimSpace(name) != name:
		problem = "begins or ends with a space"
	case name == "." || name == "..":
		problem = "is a step in a path"
	default:
		return nil
	}
	return NewError(CodeInvalid, "the flow's name "+problem+"; give it another one",
		ErrorDetail{Pointer: "/name", Code: string(CodeInvalid), Detail: problem})
}
