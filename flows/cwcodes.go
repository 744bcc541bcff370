package flows

// CWError is one entry of the error catalogue of runs and flow files: a stable code and the class name that the
// base system gives it. Codes are append-only. It is an error itself, so that errors.Is finds it as a cause.
type CWError struct {
	Code  string // "CW-E005"
	Class string // "InputMappingError"
}

func (e CWError) Error() string { return e.Code + " " + e.Class }

// The catalogue. Codes that pave has no use for (editor adapters, build-time completion, plugins, fuzzing) are
// left out; their numbers stay reserved.
var (
	CWToolNotFound            = CWError{"CW-E001", "ToolNotFoundError"}
	CWFlowNotFound            = CWError{"CW-E002", "FlowNotFoundError"}
	CWFlowExists              = CWError{"CW-E003", "FlowAlreadyExistsError"}
	CWSchemaValidation        = CWError{"CW-E004", "SchemaValidationError"}
	CWInputMapping            = CWError{"CW-E005", "InputMappingError"}
	CWFlowExecution           = CWError{"CW-E006", "FlowExecutionError"}
	CWToolDefinition          = CWError{"CW-E007", "ToolDefinitionError"}
	CWToolTimeout             = CWError{"CW-E008", "ToolTimeoutError"}
	CWToolOutputSize          = CWError{"CW-E009", "ToolOutputSizeError"}
	CWDAGDefinition           = CWError{"CW-E010", "DAGDefinitionError"}
	CWFlowStatus              = CWError{"CW-E011", "FlowStatusError"}
	CWFlowCancelled           = CWError{"CW-E012", "FlowCancelledError"}
	CWContextCollision        = CWError{"CW-E013", "ContextKeyCollisionError"}
	CWFlowComposition         = CWError{"CW-E015", "FlowCompositionError"}
	CWInvalidVersion          = CWError{"CW-E016", "InvalidFlowVersionError"}
	CWFlowSerialization       = CWError{"CW-E017", "FlowSerializationError"}
	CWCheckpointDrift         = CWError{"CW-E018", "CheckpointDriftError"}
	CWCheckpointNotConfigured = CWError{"CW-E019", "CheckpointerNotConfiguredError"}
	CWCheckpointNotFound      = CWError{"CW-E020", "CheckpointNotFoundError"}
	CWCheckpointVersion       = CWError{"CW-E021", "CheckpointVersionError"}
	CWMCP                     = CWError{"CW-E024", "MCPError"}
	CWMCPSchemaConversion     = CWError{"CW-E025", "MCPSchemaConversionError"}
	CWMCPToolInvocation       = CWError{"CW-E026", "MCPToolInvocationError"}
	CWMCPMetadata             = CWError{"CW-E027", "MCPMetadataError"}
	CWMCPSchemaDrift          = CWError{"CW-E028", "MCPSchemaDriftError"}
	CWApprovalDenied          = CWError{"CW-E029", "ApprovalDeniedError"}
	CWSafetyCeiling           = CWError{"CW-E030", "SafetyCeilingError"}
	CWDecisionCallback        = CWError{"CW-E031", "DecisionCallbackError"}
	CWKernelInvocation        = CWError{"CW-E032", "KernelInvocationError"}
	CWCostProfile             = CWError{"CW-E033", "CostProfileError"}
	CWTraceImport             = CWError{"CW-E035", "AgentTraceImportError"}
	CWPredicateSyntax         = CWError{"CW-E036", "PredicateSyntaxError"}
	CWAttestationInput        = CWError{"CW-E039", "AttestationInputError"}
	CWFixtureStale            = CWError{"CW-E040", "FixtureStaleError"}
	CWOutputMapping           = CWError{"CW-E041", "OutputMappingError"}
	CWFlowAuthentication      = CWError{"CW-E045", "FlowAuthenticationError"}
	CWRateLimit               = CWError{"CW-E046", "RateLimitExceededError"}
	CWFlowAuthorization       = CWError{"CW-E047", "FlowAuthorizationError"}
	CWDecisionTimeout         = CWError{"CW-E049", "DecisionTimeoutError"}
	CWDecisionBudget          = CWError{"CW-E050", "DecisionBudgetExceededError"}
	CWSchemaRefPolicy         = CWError{"CW-E051", "SchemaRefPolicyError"}
	CWGuardrail               = CWError{"CW-E052", "GuardrailViolationError"}
)

// catalogue lists the entries above.
var catalogue = []CWError{
	CWToolNotFound, CWFlowNotFound, CWFlowExists, CWSchemaValidation, CWInputMapping, CWFlowExecution,
	CWToolDefinition, CWToolTimeout, CWToolOutputSize, CWDAGDefinition, CWFlowStatus, CWFlowCancelled,
	CWContextCollision, CWFlowComposition, CWInvalidVersion, CWFlowSerialization, CWCheckpointDrift, CWCheckpointNotConfigured,
	CWCheckpointNotFound, CWCheckpointVersion, CWMCP, CWMCPSchemaConversion, CWMCPToolInvocation, CWMCPMetadata,
	CWMCPSchemaDrift, CWApprovalDenied, CWSafetyCeiling, CWDecisionCallback, CWKernelInvocation, CWCostProfile,
	CWTraceImport, CWPredicateSyntax, CWAttestationInput, CWFixtureStale, CWOutputMapping, CWFlowAuthentication,
	CWRateLimit, CWFlowAuthorization, CWDecisionTimeout, CWDecisionBudget, CWSchemaRefPolicy, CWGuardrail,
}

// CWByClass finds the catalogue's entry of a class name.
func CWByClass(class string) (CWError, bool) {
	for _, e := range catalogue {
		if e.Class == class {
			return e, true
		}
	}
	return CWError{}, false
}
