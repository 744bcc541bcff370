package flows

import "errors"

// Code is a stable error code. Codes are append-only: never renumber, never reuse.
type Code string

// Service codes: what goes wrong between a caller and pave. The status table in api and the exit codes of the
// CLI are keyed by them.
const (
	CodeInternal         Code = "internal"
	CodeInvalid          Code = "invalid"             // the request does not have the required form
	CodeTooLarge         Code = "too_large"           // a limit of size, count or depth
	CodeUnsupportedMedia Code = "unsupported_media"   // content type or encoding
	CodeUnauthenticated  Code = "unauthenticated"     // no key, or one that is not valid
	CodeForbidden        Code = "forbidden"           // the key lacks the scope
	CodeNotFound         Code = "not_found"           // no such object
	CodeMethod           Code = "method_not_allowed"  // no such method on this path
	CodeConflict         Code = "conflict"            // the object's state does not allow this
	CodeExists           Code = "already_exists"      // the name is taken
	CodeStale            Code = "stale"               // If-Match or digest is not the current one
	CodePrecondition     Code = "precondition_needed" // If-Match is missing
	CodeIdempotencyReuse Code = "idempotency_reuse"   // same Idempotency-Key, other body
	CodeInProgress       Code = "in_progress"         // same Idempotency-Key, first request still running
	CodeFourEyes         Code = "four_eyes"           // the author may not approve
	CodeApprovalsMissing Code = "approvals_missing"   // promotion without the approvals that the policy wants
	CodeUnbound          Code = "unbound_tools"       // a flow's tool has no binding
	CodeCompile          Code = "compile_failed"      // the flow does not compile; details list the diagnostics
	CodeFlowStatus       Code = "flow_not_active"     // CW-E011 as a service answer
	CodeToolDrift        Code = "tool_drift"          // a pinned tool changed
	CodeUnavailable      Code = "unavailable"         // a store or a dependency cannot answer now
	CodeFull             Code = "full"                // queue, spool or disk has no room; retry later
	CodeRateLimited      Code = "rate_limited"
	CodeEgressDenied     Code = "egress_denied"   // the egress list does not allow the tool's address
	CodeReplayDiverged   Code = "replay_diverged" // recorded sessions speak against a draft more than the policy allows
	CodeShadow           Code = "shadow_pending"  // live predictions of a draft do not yet hold as the policy wants
	CodeOutsideRollout   Code = "outside_rollout" // a flow serves a share of its callers, and this one is not among them
)

// Error is an error that a user may see: a stable code, a message that says what to do, and details that point
// into the request. Anything else is answered as CodeInternal and its text is logged only.
type Error struct {
	Code    Code
	Message string
	Details []ErrorDetail
	Err     error // wrapped cause, never shown
}

// ErrorDetail points at one place of the request.
type ErrorDetail struct {
	Pointer string `json:"pointer"` // JSON pointer into the request, "" for the whole
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.Err }

// NewError builds an Error.
func NewError(code Code, message string, details ...ErrorDetail) *Error {
	return &Error{Code: code, Message: message, Details: details}
}

// CodeOf returns the code of the first *Error in err's chain, CodeInternal when there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
