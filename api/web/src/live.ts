// A run's events as they happen, over server-sent events. The browser reconnects by itself and goes on where it was.
import { useEffect, useState } from 'preact/hooks'
import { address, type Schemas } from './api'
import type { RunRecord, StepRecord } from './record'

export interface Live {
  connected: boolean
  total?: number
  steps: StepRecord[]
  now: Map<number, string> // steps that are running, with their tools
}

const kinds = ['flow_start', 'step_start', 'step_end', 'flow_end', 'dropped', 'run'] as const

/** Follows a run until it has ended; `ended` is called once, when there is nothing more to come. */
export function useLive(id: string, on: boolean, ended: () => void): Live {
  const [live, set] = useState<Live>({ connected: false, steps: [], now: new Map() })
  useEffect(() => {
    if (!on) return
    set({ connected: false, steps: [], now: new Map() })
    const source = new EventSource(address('/api/v1/runs/{id}/events', { id }))
    const over = () => {
      source.close()
      set((l) => ({ ...l, connected: false }))
      ended()
    }
    source.onopen = () => set((l) => ({ ...l, connected: true }))
    source.onerror = () => (source.readyState === EventSource.CLOSED ? over() : set((l) => ({ ...l, connected: false })))
    for (const kind of kinds)
      source.addEventListener(kind, (e) => {
        const ev = JSON.parse((e as MessageEvent<string>).data) as Schemas['RunEvent']
        if (kind === 'run') over()
        else set((l) => after(l, ev))
      })
    return () => source.close()
  }, [id, on])
  return live
}

/** The state after an event. */
export function after(l: Live, ev: Schemas['RunEvent']): Live {
  const now = new Map(l.now)
  switch (ev.kind) {
    case 'flow_start':
      return { ...l, total: l.total ?? ev.total_steps }
    case 'step_start':
      now.set(ev.step_index ?? 0, ev.tool_name ?? '')
      return { ...l, now }
    case 'step_end':
      now.delete(ev.step_index ?? 0)
      return { ...l, now, steps: ev.step_record ? [...l.steps.filter((s) => s.step_index !== ev.step_index), ev.step_record as unknown as StepRecord].sort((a, b) => a.step_index - b.step_index) : l.steps }
    default:
      return l
  }
}

/** What is known of a run before its record is written. */
export const recordSoFar = (run: Schemas['Run'], live: Live): RunRecord => ({ flow_name: run.flow, success: false, status: run.status, execution_log: live.steps })
