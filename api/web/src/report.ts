// Reports by day, as the API tables them.
import { get, useData, type Loaded, type Schemas } from './api'

type Kind = 'savings-by-day' | 'coverage' | 'drift' | 'reliability' | 'adoption' | 'adoption-by-agent'
export type Row = Schemas['Report']['items'][number]

/** A report from a time on; `range` names the time for as long as it means the same. */
export function useReport(kind: Kind, range: string, from?: string): Loaded<Schemas['Report']> {
  return useData(`${kind} ${range}`, (signal) => get('/api/v1/reports/{kind}', { path: { kind }, query: { from }, signal }))
}

export const cell = (row: Row, column: string) => Number((row as Record<string, unknown>)[column] ?? 0)

/** The sum of a column. */
export const total = (rows: Row[] | undefined, column: string) => (rows ?? []).reduce((sum, row) => sum + cell(row, column), 0)

/** The sum of a daily share, each day weighing what another column says. */
export const weighted = (rows: Row[] | undefined, share: string, weight: string) => (rows ?? []).reduce((sum, row) => sum + cell(row, share) * cell(row, weight), 0)

/** The rows of each flow. */
export function byFlow(rows: Row[] | undefined): Map<string, Row[]> {
  const out = new Map<string, Row[]>()
  for (const row of rows ?? []) if (row.flow) out.set(row.flow, [...(out.get(row.flow) ?? []), row])
  return out
}

/** The rows of each agent, as its telemetry names it. */
export const byAgent = (rows: Row[] | undefined): Map<string, Row[]> => Map.groupBy(rows ?? [], (row) => String((row as Record<string, unknown>).agent ?? ''))

/** A share of two parts, absent where there is neither. */
export const share = (part: number, rest: number) => (part + rest > 0 ? part / (part + rest) : undefined)

/** What the runs of all versions of a flow avoided. Bounds are added, which is wider than the interval of the sum. */
export function savingsOfFlow(report: Schemas['SavingsReport'] | undefined, name: string): Schemas['FlowSavings'] | undefined {
  const [first, ...rest] = report?.flows.filter((f) => f.flow === name) ?? []
  return first && rest.reduce(added, first)
}

const added = (a: Schemas['FlowSavings'], b: Schemas['FlowSavings']): Schemas['FlowSavings'] => ({
  ...a, runs: a.runs + b.runs, succeeded: a.succeeded + b.succeeded, failed: a.failed + b.failed, handed_back: a.handed_back + b.handed_back, denied: a.denied + b.denied,
  measured: {
    llm_calls: sum(a.measured.llm_calls, b.measured.llm_calls), tokens: sum(a.measured.tokens, b.measured.tokens),
    cost_usd: sum(a.measured.cost_usd, b.measured.cost_usd), latency_ms: sum(a.measured.latency_ms, b.measured.latency_ms),
  },
})

const sum = (a: Schemas['Figure'], b: Schemas['Figure']): Schemas['Figure'] =>
  !a.known ? b : !b.known ? a : { ...a, mean: a.mean + b.mean, low: a.low + b.low, high: a.high + b.high }

/** A measured figure with its interval below it, and in full on hover. */
export function measured(f: Schemas['Figure'] | undefined, show: (n: number) => string, without = 'not measured'): { value: string; note: string; bounds?: string } {
  if (!f?.known) return { value: '–', note: without }
  const half = Math.max(f.high - f.mean, f.mean - f.low)
  if (half < 1e-9) return { value: show(f.mean), note: 'measured, exact' }
  return { value: show(f.mean), note: `measured, ± ${show(half)}`, bounds: `${show(f.low)} to ${show(f.high)}` }
}
