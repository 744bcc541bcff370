package api

import (
	"net/http"

	"pave/flows"
)

// Exit statuses of the command line.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitConflict    = 4 // conflict or stale
	ExitInvalid     = 5 // invalid input
	ExitRefused     = 6 // by policy or permission
	ExitUnavailable = 7
)

// answer is what an error code becomes at the boundary.
type answer struct {
	status int // HTTP
	exit   int // command line
	title  string
}

// answers is the one table from an error's code to its HTTP status and exit status.
var answers = map[flows.Code]answer{
	flows.CodeInternal:         {http.StatusInternalServerError, ExitFailed, "Internal error"},
	flows.CodeInvalid:          {http.StatusBadRequest, ExitInvalid, "Invalid request"},
	flows.CodeTooLarge:         {http.StatusRequestEntityTooLarge, ExitInvalid, "Too large"},
	flows.CodeUnsupportedMedia: {http.StatusUnsupportedMediaType, ExitInvalid, "Unsupported media type"},
	flows.CodeUnauthenticated:  {http.StatusUnauthorized, ExitRefused, "Not authenticated"},
	flows.CodeForbidden:        {http.StatusForbidden, ExitRefused, "Not permitted"},
	flows.CodeNotFound:         {http.StatusNotFound, ExitNotFound, "Not found"},
	flows.CodeMethod:           {http.StatusMethodNotAllowed, ExitFailed, "Method not allowed"},
	flows.CodeConflict:         {http.StatusConflict, ExitConflict, "Conflict"},
	flows.CodeExists:           {http.StatusConflict, ExitConflict, "Already exists"},
	flows.CodeStale:            {http.StatusPreconditionFailed, ExitConflict, "Stale"},
	flows.CodePrecondition:     {http.StatusPreconditionRequired, ExitConflict, "Precondition needed"},
	flows.CodeIdempotencyReuse: {http.StatusUnprocessableEntity, ExitConflict, "Idempotency key reused"},
	flows.CodeInProgress:       {http.StatusConflict, ExitConflict, "In progress"},
	flows.CodeFourEyes:         {http.StatusForbidden, ExitRefused, "Four eyes"},
	flows.CodeApprovalsMissing: {http.StatusForbidden, ExitRefused, "Approvals missing"},
	flows.CodeUnbound:          {http.StatusConflict, ExitConflict, "Unbound tools"},
	flows.CodeCompile:          {http.StatusUnprocessableEntity, ExitInvalid, "Flow does not compile"},
	flows.CodeFlowStatus:       {http.StatusConflict, ExitRefused, "Flow is not active"},
	flows.CodeToolDrift:        {http.StatusConflict, ExitRefused, "Tool drift"},
	flows.CodeUnavailable:      {http.StatusServiceUnavailable, ExitUnavailable, "Unavailable"},
	flows.CodeFull:             {http.StatusServiceUnavailable, ExitUnavailable, "Full"},
	flows.CodeRateLimited:      {http.StatusTooManyRequests, ExitUnavailable, "Rate limited"},
	flows.CodeEgressDenied:     {http.StatusForbidden, ExitRefused, "Egress denied"},
	flows.CodeReplayDiverged:   {http.StatusForbidden, ExitRefused, "Replay diverged"},
	flows.CodeShadow:           {http.StatusForbidden, ExitRefused, "Shadow pending"},
	flows.CodeOutsideRollout:   {http.StatusConflict, ExitRefused, "Outside of the rollout"},
}

// StatusOf is the HTTP status of a code.
func StatusOf(code flows.Code) int {
	if a, ok := answers[code]; ok {
		return a.status
	}
	return http.StatusInternalServerError
}

// ExitOf is the exit status of a code.
func ExitOf(code flows.Code) int {
	if a, ok := answers[code]; ok {
		return a.exit
	}
	return ExitFailed
}
