// The flow file as the UI reads it: steps, where each argument comes from, and which step or input produces it.
import type { Schemas } from './api'

export interface FlowDoc {
  name: string
  version?: string
  type?: string
  description?: string
  input_schema?: { properties?: Record<string, SchemaNode>; required?: string[] }
  steps: StepDoc[]
  returns?: Record<string, unknown>
  [field: string]: unknown
}

export interface SchemaNode {
  type?: string | string[]
  description?: string
  enum?: unknown[]
  default?: unknown
  properties?: Record<string, SchemaNode>
  required?: string[]
  items?: SchemaNode
  minimum?: number
  maximum?: number
  [keyword: string]: unknown
}

export interface StepDoc {
  step_id?: string
  tool_name?: string
  flow_name?: string
  capability_id?: string
  step_type?: string
  input_mapping?: Record<string, unknown>
  output_mapping?: Record<string, string>
  output_as?: string
  depends_on?: string[]
  for_each?: unknown
  as?: string
  guard?: string
  branches?: { predicate?: string; target_step_id?: string }[]
  default_next?: string
  decision_candidates?: unknown[]
  [field: string]: unknown
}

export type Source =
  | { kind: 'key'; key: string }
  | { kind: 'pointer'; key: string; pointer: string }
  | { kind: 'const'; value: unknown }
  | { kind: 'expr'; text: string; keys: string[] }

export interface Mapping {
  id: string // `<step>/<argument>`, the name under which everything lights up
  arg: string
  source: Source
  optional: boolean
  from: number | 'input' | 'element' | null // the step, the flow's input, the element of for_each, or nothing (constants)
  reads: (number | 'input')[] // all steps and inputs that the value is made of
  path: string // JSON pointer of the mapping in the flow document
  like: string // the mapping whose evidence stands for it: its own, or that of the same call on another way
}

/** When a step runs, where that is not always. */
export interface Condition {
  id: string // `<step>/when/<number>`
  text: string
  title: string
  reads: (number | 'input')[]
}

export interface Step {
  index: number
  id: string
  name: string
  kind: 'tool' | 'flow' | 'capability'
  mappings: Mapping[]
  whole: boolean // it has no mapping: the tool gets the whole context
  out?: string
  forEach?: Mapping
  when: Condition[]
  after: number[] // of a DAG: the steps that it waits for
  level: number
}

export interface Flow {
  inputs: { name: string; required: boolean; schema: SchemaNode }[]
  steps: Step[]
}

export const flowOf = (doc: unknown) => doc as FlowDoc

function sourceOf(value: unknown): { source: Source; optional: boolean } {
  if (typeof value === 'string') {
    if (value.startsWith('/')) {
      const [key = '', ...rest] = value.slice(1).split('/')
      const pointer = rest.length ? '/' + rest.join('/') : ''
      return { source: { kind: 'pointer', key: unescape(key), pointer }, optional: false }
    }
    return { source: { kind: 'key', key: value }, optional: false }
  }
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
    const o = value as Record<string, unknown>
    if ('$const' in o) return { source: { kind: 'const', value: o['$const'] }, optional: false }
    if (typeof o['$expr'] === 'string') return { source: { kind: 'expr', text: o['$expr'], keys: keysOf(o['$expr']) }, optional: false }
    if ('$optional' in o) return { ...sourceOf(o['$optional']), optional: true }
  }
  return { source: { kind: 'const', value }, optional: false }
}

/** An argument that is always left out, since its source is the step's own output: how a flow says that a step takes none. */
const neverIn = (s: StepDoc, value: unknown) =>
  s.output_as !== undefined && typeof value === 'object' && value !== null && (value as Record<string, unknown>)['$optional'] === s.output_as

/** The words of an expression that may name an input or an output. */
const keysOf = (text: string): string[] => text.replace(/"[^"]*"|'[^']*'/g, '').match(/(?<![.\w])[A-Za-z_]\w*/g) ?? []

/** What has to hold for a step to run: the branches that lead to it, and its guard. */
function conditions(steps: StepDoc[], s: StepDoc): { text: string; title: string; from?: number }[] {
  const out: { text: string; title: string; from?: number }[] = []
  steps.forEach((b, from) => {
    if (s.step_id === undefined || !b.branches?.length) return
    const tests = b.branches.filter((x) => x.target_step_id === s.step_id).map((x) => x.predicate ?? '')
    if (tests.length) out.push({ text: `if ${tests.join(' or ')}`, title: `runs only where ${tests.join(' or ')}, after step ${from + 1}`, from })
    if (b.default_next === s.step_id) out.push({ text: 'otherwise', title: `runs only where step ${from + 1} takes none of its other ways`, from })
  })
  if (s.guard) out.push({ text: `if ${s.guard}`, title: `runs only where ${s.guard}; elsewhere the run is handed back` })
  return out
}

const unescape = (token: string) => token.replaceAll('~1', '/').replaceAll('~0', '~')
export const escapeToken = (token: string) => token.replaceAll('~', '~0').replaceAll('/', '~1')

export function readFlow(doc: FlowDoc): Flow {
  const steps = Array.isArray(doc.steps) ? doc.steps : []
  const inputs = Object.entries(doc.input_schema?.properties ?? {}).map(([name, schema]) => ({ name, schema, required: doc.input_schema?.required?.includes(name) ?? false }))
  const ids = new Map(steps.map((s, i) => [s.step_id ?? String(i), i]))
  const dag = doc.type === 'DAGFlow'
  const levels: number[] = []
  const read: Step[] = steps.map((s, index) => {
    const before = dag ? (s.depends_on ?? []).map((d) => ids.get(d) ?? -1).filter((d) => d >= 0 && d < index) : index > 0 ? [index - 1] : []
    levels[index] = before.length ? Math.max(...before.map((d) => levels[d] ?? 0)) + 1 : 0
    const twin = steps.findIndex((p, i) => i < index && p.tool_name === s.tool_name && p.output_as !== undefined && p.output_as === s.output_as)
    const like = twin < 0 ? index : twin
    const producer = (key: string): Mapping['from'] => {
      if (s.as === key || (s.for_each !== undefined && s.as === undefined && key === 'item')) return 'element'
      for (let i = index - 1; i >= 0; i--) {
        const p = steps[i]
        if (p?.output_as === key || Object.values(p?.output_mapping ?? {}).includes(key)) return i
      }
      if (inputs.some((p) => p.name === key)) return 'input'
      return index > 0 && !steps.some((p) => p.output_as) ? index - 1 : 'input'
    }
    const mapping = (arg: string, value: unknown, path: string): Mapping => {
      const { source, optional } = sourceOf(value)
      const from = source.kind === 'const' ? null : source.kind === 'expr' ? (source.keys.map(known).find((f) => f !== null) ?? null) : producer(source.key)
      const reads = source.kind === 'expr' ? readBy(source.keys) : from === 'input' || typeof from === 'number' ? [from] : []
      return { id: `${index}/${arg}`, arg, source, optional, from, reads, path, like: `${like}/${arg}` }
    }
    const known = (key: string) => (s.as === key || inputs.some((p) => p.name === key) || steps.some((p) => p.output_as === key) ? producer(key) : null)
    const readBy = (keys: string[]) => [...new Set(keys.map(known))].filter((f): f is number | 'input' => f === 'input' || typeof f === 'number')
    const when = conditions(steps, s).map((c, n): Condition => ({ id: `${index}/when/${n}`, text: c.text, title: c.title, reads: c.from === undefined ? readBy(keysOf(c.text)) : [c.from] }))
    return {
      index, id: s.step_id ?? String(index + 1), level: levels[index] ?? 0,
      name: s.tool_name ?? s.flow_name ?? s.capability_id ?? '?', kind: s.flow_name ? 'flow' : s.capability_id ? 'capability' : 'tool',
      mappings: Object.entries(s.input_mapping ?? {}).filter(([, v]) => !neverIn(s, v)).map(([arg, v]) => mapping(arg, v, `/steps/${index}/input_mapping/${escapeToken(arg)}`)),
      whole: Object.keys(s.input_mapping ?? {}).length === 0, out: s.output_as, when, after: dag ? before : [], forEach: s.for_each === undefined ? undefined : { ...mapping('for_each', s.for_each, `/steps/${index}/for_each`) },
    }
  })
  return { inputs, steps: read }
}

/** The source of an argument in words that fit a row. */
export function sourceText(m: Mapping): string {
  const optional = m.optional ? '?' : ''
  switch (m.source.kind) {
    case 'key':
      return m.source.key + optional
    case 'pointer':
      return `${m.source.key}${m.source.pointer}${optional}`
    case 'const':
      return JSON.stringify(m.source.value)
    case 'expr':
      return `= ${m.source.text}`
  }
}

/** What the evidence of a proposal says about one mapping. */
export function evidenceOf(evidence: Schemas['Evidence'] | undefined, m: Mapping): Schemas['ArgFlow'] | undefined {
  const [step = '', ...arg] = m.like.split('/')
  return evidence?.pattern?.data_flow?.steps[Number(step)]?.find((a) => a.arg === arg.join('/'))
}

export function follow(value: unknown, pointer: string): unknown {
  let at = value
  if (pointer === '') return at
  for (const token of pointer.slice(1).split('/').map(unescape)) {
    if (at === null || typeof at !== 'object') return undefined
    at = (at as Record<string, unknown>)[token]
  }
  return at
}

/** The value that a mapping takes from recorded outputs; undefined where only the executor can tell. */
export function resolve(m: Mapping, flow: Flow, inputs: Record<string, unknown>, outputs: unknown[]): { known: boolean; value?: unknown } {
  switch (m.source.kind) {
    case 'const':
      return { known: true, value: m.source.value }
    case 'expr':
      return { known: false }
    case 'key':
      if (m.from === 'input') return { known: m.source.key in inputs, value: inputs[m.source.key] }
      return typeof m.from === 'number' && flow.steps[m.from]?.out ? { known: true, value: outputs[m.from] } : { known: false }
    case 'pointer':
      if (m.from === 'input') return { known: m.source.key in inputs, value: follow(inputs[m.source.key], m.source.pointer) }
      return typeof m.from === 'number' && flow.steps[m.from]?.out ? { known: true, value: follow(outputs[m.from], m.source.pointer) } : { known: false }
  }
}

export const same = (a: unknown, b: unknown): boolean => stable(a) === stable(b)

export function stable(v: unknown): string {
  if (v === null || typeof v !== 'object') return JSON.stringify(v) ?? 'undefined'
  if (Array.isArray(v)) return `[${v.map(stable).join(',')}]`
  return `{${Object.keys(v).sort().map((k) => `${JSON.stringify(k)}:${stable((v as Record<string, unknown>)[k])}`).join(',')}}`
}

/** A value in one line. */
export const readable = (v: unknown): string => (v === undefined ? 'absent' : JSON.stringify(v))
