// A session as rows: what the user said, each turn's model calls, its tool calls; nested agents under their call; and
// the stretches that a flow covers or could cover.
import type { Schemas } from './api'
import { stable } from './flow'

export type Call = Schemas['SessionCall']
export type AgentRun = Schemas['AgentRun']

export interface Path {
  kind: 'flow' | 'proposal'
  name: string
  id: string
  tools: string[]
}

export interface Covered {
  path: Path
  from: number // index of the first call
  to: number // and of the last
}

export interface Turn {
  turn: number
  llm: Schemas['LlmStep'][]
  said: Schemas['UserTurn'][]
  calls: { call: Call; index: number; times: number }[]
}

/** The calls of a run by turn; exact repeats of the call before are folded into it. */
export function turnsOf(run: AgentRun): Turn[] {
  const turns = new Map<number, Turn>()
  const at = (turn: number) => {
    let t = turns.get(turn)
    if (!t) turns.set(turn, (t = { turn, llm: [], said: [], calls: [] }))
    return t
  }
  for (const l of run.llm_calls) if (l.turn >= 0) at(l.turn).llm.push(l)
  run.calls.forEach((call, index) => {
    const calls = at(call.turn).calls
    const last = calls.at(-1)
    if (call.flags?.includes('repeat') && last && last.call.tool === call.tool && stable(last.call.args) === stable(call.args)) last.times++
    else calls.push({ call, index, times: 1 })
  })
  const ordered = [...turns.values()].sort((a, b) => a.turn - b.turn)
  for (const said of run.user_messages) {
    const call = run.calls[said.before]
    const t = call ? turns.get(call.turn) : ordered.at(-1)
    t?.said.push(said)
  }
  return ordered
}

/** Non-overlapping stretches of the run that one of the paths walks, longest paths first. */
export function coverage(run: AgentRun, paths: Path[]): Covered[] {
  const found: Covered[] = []
  const taken = new Set<number>()
  const order = [...paths].sort((a, b) => b.tools.length - a.tools.length || (a.kind === 'flow' ? -1 : 1))
  for (const path of order)
    for (let from = 0; from + path.tools.length <= run.calls.length; from++) {
      const slice = run.calls.slice(from, from + path.tools.length)
      const fits = path.tools.length > 1 && slice.every((c, i) => c.tool === path.tools[i] && !taken.has(from + i) && (i === 0 || !c.flags?.includes('break')) && c.origin_kind !== 'flow')
      if (!fits) continue
      found.push({ path, from, to: from + slice.length - 1 })
      for (let i = from; i < from + slice.length; i++) taken.add(i)
    }
  return found.sort((a, b) => a.from - b.from)
}

/** Values worth following: short texts and numbers; not truth values and not tiny numbers, which are equal by chance. */
export const worthFollowing = (v: unknown) => (typeof v === 'string' && v.length > 0) || (typeof v === 'number' && Math.abs(v) >= 10)

/** Whether a value occurs anywhere in another. */
export function holds(within: unknown, value: unknown): boolean {
  if (within === value) return true
  if (within === null || typeof within !== 'object') return false
  return Object.values(within).some((v) => holds(v, value))
}
