// The executor's record of a run, as the API hands it through.
export interface StepRecord {
  step_index: number
  tool_name: string
  step_id?: string | null
  inputs?: Record<string, unknown> | null
  outputs?: Record<string, unknown> | null
  error_type?: string | null
  error_code?: string | null
  error_message?: string | null
  success: boolean
  started_at?: string
  ended_at?: string
  duration_ms?: number
  retry_count?: number
  retry_errors?: unknown[]
  skipped?: boolean
  cached?: boolean
  fallback_used?: boolean
  fallback_tool_name?: string | null
  flow_name?: string | null
  sub_result?: RunRecord | null
  approval?: unknown
  decision?: unknown
}

export interface RunRecord {
  flow_name: string
  flow_version?: string
  success: boolean
  status: string
  final_output?: unknown
  execution_log: StepRecord[]
  trace_id?: string
  total_duration_ms?: number
  initial_input?: Record<string, unknown> | null
  hand_back?: { reason?: string; next_step?: string; inputs?: unknown; [field: string]: unknown } | null
  cost_report?: { llm_calls_avoided?: number; latency_saved_ms?: number; cost_saved_usd?: number } | null
}

/** The context after each step: inputs, then what each step wrote, by the steps of the flow. */
export function contexts(record: RunRecord, outKeys: (string | undefined)[]): Record<string, unknown>[] {
  let at: Record<string, unknown> = { ...(record.initial_input ?? {}) }
  return record.execution_log.map((s) => {
    if (s.success && s.outputs) {
      const key = outKeys[s.step_index]
      at = key ? { ...at, [key]: s.outputs } : { ...at, ...s.outputs }
    }
    return at
  })
}
