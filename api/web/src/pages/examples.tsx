// Recorded sessions beside what the flow would do in them, argument by argument.
import { useMemo, useState } from 'preact/hooks'
import { get, useData, type Schemas } from '../api'
import { readable, resolve, same, sourceText, type Flow, type Mapping } from '../flow'
import { useHot } from '../parts/diagram'
import { State } from '../parts/marks'
import { Card } from '../parts/page'
import { Show } from '../parts/states'
import { Link, to } from '../router'

const each = 3

export function Examples({ p, flow }: { p: Schemas['Proposal']; flow: Flow }) {
  const pattern = p.evidence.pattern
  const choices = useMemo(() => {
    const against = [...new Set(pattern?.data_flow?.steps.flat().flatMap((a) => a.evidence.contradicting ?? []) ?? [])].slice(0, each)
    const found = (pattern?.examples ?? []).filter((o) => !against.includes(o.session_id)).slice(0, each)
    return [...found.map((o) => ({ id: o.session_id, at: o, against: false })), ...against.map((id) => ({ id, at: pattern?.examples?.find((o) => o.session_id === id), against: true }))]
  }, [pattern])
  const [at, setAt] = useState(0)
  const chosen = choices[at]
  const session = useData(chosen ? `session ${chosen.id}` : null, (signal) => get('/api/v1/sessions/{id}', { path: { id: chosen!.id }, signal }))
  if (!chosen) return null
  return (
    <Card
      title="Example sessions"
      actions={choices.map((c, i) => (
        <button type="button" key={c.id} class={i === at ? 'small on' : 'small'} aria-pressed={i === at} onClick={() => setAt(i)}>
          {c.against ? '▲ ' : ''}
          {c.id}
        </button>
      ))}
      tight
    >
      <Show of={session} rows={5}>
        {(s) => <Compare session={s} occurrence={chosen.at} flow={flow} tools={p.tools} />}
      </Show>
    </Card>
  )
}

function locate(session: Schemas['Session'], flow: Flow, occurrence?: Schemas['Occurrence']): Schemas['SessionCall'][] | null {
  if (occurrence) {
    const run = session.runs[occurrence.run_index]
    const calls = occurrence.calls.map((i) => run?.calls[i])
    if (calls.every((c) => c !== undefined) && calls.length >= flow.steps.length) return calls as Schemas['SessionCall'][]
  }
  for (const run of session.runs)
    for (let from = 0; from < run.calls.length; from++) {
      const found: Schemas['SessionCall'][] = []
      for (let i = from; i < run.calls.length && found.length < flow.steps.length; i++) if (run.calls[i]!.tool === flow.steps[found.length]!.name) found.push(run.calls[i]!)
      if (found.length === flow.steps.length) return found
    }
  return null
}

function Compare({ session, occurrence, flow }: { session: Schemas['Session']; occurrence?: Schemas['Occurrence']; flow: Flow; tools: string[] }) {
  const calls = locate(session, flow, occurrence)
  if (!calls)
    return (
      <p class="pad dim">
        The steps are not found one by one in <Link to={to('sessions', session.id)}>{session.id}</Link>; open the session to see what the agent did.
      </p>
    )
  const outputs = calls.map((c) => c.result)
  const inputs: Record<string, unknown> = {}
  for (const s of flow.steps)
    for (const m of s.mappings) {
      const args = calls[s.index]?.args as Record<string, unknown> | undefined
      if (m.from === 'input' && m.source.kind === 'key' && args && !(m.source.key in inputs) && m.arg in args) inputs[m.source.key] = args[m.arg]
    }
  return (
    <div class="compare">
      <table>
        <thead>
          <tr>
            <th scope="col">Argument</th>
            <th scope="col">
              recorded in <Link to={to('sessions', session.id)}>{session.id}</Link>
            </th>
            <th scope="col">what the flow would send</th>
            <th scope="col">
              <span class="sr">same</span>
            </th>
          </tr>
        </thead>
        {flow.steps.map((s) => (
          <tbody key={s.index}>
            <tr class="compare-step">
              <th colSpan={4} scope="rowgroup">
                <span class="box-no">{s.index + 1}</span> <span class="mono">{s.name}</span>
              </th>
            </tr>
            {s.mappings.map((m) => (
              <Pair key={m.id} m={m} flow={flow} call={calls[s.index]} inputs={inputs} outputs={outputs} />
            ))}
          </tbody>
        ))}
      </table>
    </div>
  )
}

function Pair({ m, flow, call, inputs, outputs }: { m: Mapping; flow: Flow; call?: Schemas['SessionCall']; inputs: Record<string, unknown>; outputs: unknown[] }) {
  const { lit, bind } = useHot(m.id)
  const recorded = (call?.args as Record<string, unknown> | undefined)?.[m.arg]
  const would = resolve(m, flow, inputs, outputs)
  const equal = would.known && same(recorded, would.value)
  return (
    <tr class={lit ? 'hot' : ''} {...bind}>
      <td class="mono">{m.arg}</td>
      <td class="mono cut" title={readable(recorded)}>
        {readable(recorded)}
      </td>
      <td class="mono cut" title={would.known ? readable(would.value) : sourceText(m)}>
        {would.known ? readable(would.value) : <span class="dim">{sourceText(m)}</span>}
      </td>
      <td>{!would.known ? <span class="dim" title="An expression or an element: the service computes it, the browser does not">computed</span> : equal ? <State of="ok" text="same" /> : <State of="failed" text="differs" />}</td>
    </tr>
  )
}
