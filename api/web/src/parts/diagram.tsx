// A flow drawn: one box per step with a row per argument, and an edge from whatever produces the value to the row.
// Edges run beside the boxes, so that no line crosses a name; thickness is support.
import { createContext } from 'preact'
import { useContext, useEffect, useRef, useState } from 'preact/hooks'
import type { Schemas } from '../api'
import { percent } from '../format'
import { evidenceOf, sourceText, type Condition, type Flow, type Mapping, type Step } from '../flow'
import { Safety } from './marks'

/** The mapping that the pointer or the keyboard is on, the same one everywhere on the page. */
export const Hot = createContext<{ hot: string | null; set: (id: string | null) => void }>({ hot: null, set: () => {} })

export function useHot(id: string) {
  const { hot, set } = useContext(Hot)
  return { lit: hot === id, bind: { onMouseEnter: () => set(id), onMouseLeave: () => set(null), onFocus: () => set(id), onBlur: () => set(null) } }
}

const head = 30
const row = 24
const gap = 26
const sideways = 28
const minWidth = 230

interface Box {
  x: number
  y: number
  w: number
  h: number
}

interface Props {
  flow: Flow
  evidence?: Schemas['Evidence']
  safety?: (tool: string) => string | undefined
  unbound?: string[]
  comments?: (step: number) => number
  pick?: (m: Mapping) => void
  picked?: string
  marks?: (step: number) => { tone: string; text: string } | undefined
}

export function FlowDiagram({ flow, evidence, safety, unbound, comments, pick, picked, marks }: Props) {
  const ref = useRef<HTMLDivElement>(null)
  const [room, setRoom] = useState(640)
  useEffect(() => {
    const el = ref.current
    if (!el) return
    const measure = () => setRoom(el.clientWidth - 24)
    const watch = new ResizeObserver(measure)
    watch.observe(el)
    measure()
    return () => watch.disconnect()
  }, [])
  const { boxes, input, width, height, lanes } = layout(flow, room)
  const all = wires(flow)
  return (
    <div class="diagram" ref={ref}>
      <div class="diagram-canvas" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">
          {all.map((wire) => {
            const from = wire.from === 'input' ? input : boxes[wire.from]
            const to = boxes[wire.step.index]
            return from && to ? <Edge key={wire.key} wire={wire} from={from} to={to} lanes={lanes} flow={flow} evidence={evidence} /> : null
          })}
        </svg>
        {flow.inputs.length > 0 && (
          <div class="box box-input" style={place(input)}>
            <div class="box-head">
              <span class="dim">input</span>
            </div>
            {flow.inputs.map((p) => (
              <div key={p.name} class="box-row" title={p.schema.description}>
                <span class="mono">◇ {p.name}</span>
                <span class="dim">{p.required ? '' : 'optional'}</span>
              </div>
            ))}
          </div>
        )}
        {flow.steps.map((s) => (
          <div key={s.index} class={`box box-${s.kind}${unbound?.includes(s.name) ? ' box-unbound' : ''}`} style={place(boxes[s.index]!)}>
            <div class="box-head">
              <span class="box-no">{s.index + 1}</span>
              <span class="mono box-name" title={s.name}>
                {s.name}
              </span>
              {s.after.length > 0 && <span class="dim">after {s.after.map((i) => i + 1).join(', ')}</span>}
              {marks?.(s.index) && <span class={`state ${marks(s.index)!.tone}`}>{marks(s.index)!.text}</span>}
              {(comments?.(s.index) ?? 0) > 0 && <span class="tag">{comments!(s.index)} ✎</span>}
              {safety && <Safety of={safety(s.name)} />}
            </div>
            {s.when.map((c) => (
              <div key={c.id} class="box-row box-guard" title={c.title}>
                <span class="mono">{c.text}</span>
              </div>
            ))}
            {s.forEach && <Row m={s.forEach} label="for each" evidence={evidence} pick={pick} picked={picked} />}
            {s.mappings.map((m) => (
              <Row key={m.id} m={m} evidence={evidence} pick={pick} picked={picked} />
            ))}
            <div class="box-row box-out">
              <span class="mono">{s.out ? `${s.out} →` : '→'}</span>
            </div>
          </div>
        ))}
      </div>
    </div>
  )
}

function Row({ m, label, evidence, pick, picked }: { m: Mapping; label?: string; evidence?: Schemas['Evidence']; pick?: (m: Mapping) => void; picked?: string }) {
  const { lit, bind } = useHot(m.id)
  const e = evidenceOf(evidence, m)?.evidence
  const title = e ? `${m.arg} ← ${sourceText(m)}\n${evidence?.pattern?.batch ? 'callers knew it in' : 'held'} ${e.held} of ${e.present}, ${e.distinct} distinct values` : `${m.arg} ← ${sourceText(m)}`
  return (
    <button type="button" class={`box-row map${lit ? ' hot' : ''}${picked === m.id ? ' picked' : ''}`} title={title} {...bind} onClick={() => pick?.(m)} data-mapping={m.id}>
      <span class="mono map-arg">{label ?? m.arg}</span>
      <span class={`mono map-source from-${m.source.kind}`}>{sourceText(m)}</span>
      {e && e.present > 0 && <span class={`map-held${e.held < e.present && !evidence?.pattern?.batch ? ' weak' : ''}`}>{percent(e.held / e.present)}</span>}
    </button>
  )
}

/** A line from what makes a value to the row that it goes into. */
interface Wire {
  key: string
  id: string // of the mapping or condition
  step: Step
  row: number // in its box
  from: number | 'input'
  mapping?: Mapping
}

function wires(flow: Flow): Wire[] {
  return flow.steps.flatMap((step) => {
    const rows: (Mapping | Condition)[] = [...step.when, ...(step.forEach ? [step.forEach] : []), ...step.mappings]
    return rows.flatMap((m, row) => m.reads.map((from) => ({ key: `${m.id} ${from}`, id: m.id, step, row, from, mapping: 'source' in m ? m : undefined })))
  })
}

function Edge({ wire, from, to, lanes, flow, evidence }: { wire: Wire; from: Box; to: Box; lanes: Map<string, number>; flow: Flow; evidence?: Schemas['Evidence'] }) {
  const { lit } = useHot(wire.id)
  const m = wire.mapping
  const e = m && evidenceOf(evidence, m)?.evidence
  const share = e && e.present > 0 ? e.held / e.present : 1
  const y2 = to.y + head + wire.row * row + row / 2
  const inputRow = wire.from === 'input' ? flow.inputs.findIndex((p) => p.name === inputOf(m)) : -1
  const y1 = inputRow >= 0 ? from.y + head + inputRow * row + row / 2 : from.y + from.h - row / 2 - 2
  const x1 = from.x + from.w
  const x2 = to.x + to.w
  const lane = Math.max(x1, x2) + 14 + (lanes.get(wire.key) ?? 0) * 11
  const r = Math.min(8, Math.abs(y2 - y1) / 2)
  const d = `M${x1} ${y1}H${lane - r}Q${lane} ${y1} ${lane} ${y1 + r}V${y2 - r}Q${lane} ${y2} ${lane - r} ${y2}H${x2 + 5}`
  return (
    <g class={`edge${lit ? ' hot' : ''}${share < 1 ? ' weak' : ''}`}>
      <path d={d} stroke-width={0.75 + 1.5 * share} />
      <path class="edge-head" d={`M${x2 + 1} ${y2}l6 -3.500v7z`} />
    </g>
  )
}

/** The input that a mapping copies. */
const inputOf = (m?: Mapping) => (m && (m.source.kind === 'key' || m.source.kind === 'pointer') ? m.source.key : undefined)

const place = (b: Box) => ({ left: `${b.x}px`, top: `${b.y}px`, width: `${b.w}px`, height: `${b.h}px` })
const rowsOf = (s: Step) => s.mappings.length + (s.forEach ? 1 : 0) + s.when.length + 1

function layout(flow: Flow, room: number) {
  const levels: Step[][] = []
  for (const s of flow.steps) (levels[s.level] ??= []).push(s)
  const lanes = laneOf(flow)
  const laneRoom = 22 + (Math.max(-1, ...lanes.values()) + 1) * 11
  const across = Math.max(1, ...levels.map((l) => l.length))
  const w = Math.max(minWidth, Math.min(across === 1 ? 520 : 340, (room - laneRoom * across) / across))
  const column = across === 1 ? w : w + laneRoom
  let y = 2
  const input: Box = { x: 2, y, w: Math.min(w, 260), h: head + flow.inputs.length * row + 4 }
  if (flow.inputs.length > 0) y += input.h + gap
  const boxes: Box[] = []
  for (const level of levels) {
    let tallest = 0
    level.forEach((s, i) => {
      const h = head + rowsOf(s) * row + 4
      boxes[s.index] = { x: 2 + i * (column + (across === 1 ? 0 : sideways - 22)), y, w, h }
      tallest = Math.max(tallest, h)
    })
    y += tallest + gap
  }
  return { boxes, input, lanes, width: 4 + across * (across === 1 ? w + laneRoom : column + 8), height: y - gap + 6 }
}

/** Lanes so that vertical parts of edges do not lie on each other; edges of one value share theirs. */
function laneOf(flow: Flow): Map<string, number> {
  const used: { from: number; to: number; key: string }[][] = []
  const out = new Map<string, number>()
  const edges = wires(flow).map((w) => {
    const key = w.from === 'input' && w.mapping?.source.kind === 'key' ? w.mapping.source.key : ''
    return { wire: w.key, from: w.from === 'input' ? -1 : w.from, to: w.step.index, key: `${w.from}/${key}` }
  })
  edges.sort((a, b) => a.to - a.from - (b.to - b.from) || a.from - b.from)
  for (const e of edges) {
    let lane = used.findIndex((l) => l.every((o) => o.key === e.key || o.to <= e.from || o.from >= e.to))
    if (lane < 0) lane = used.push([]) - 1
    used[lane]!.push(e)
    out.set(e.wire, lane)
  }
  return out
}
