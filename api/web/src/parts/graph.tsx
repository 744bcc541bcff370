// The directly-follows graph: nodes are tools (area = calls), edges follow (thickness = count). Pannable by dragging or
// with the arrow keys, zoomed with the wheel or + and -.
import dagre from '@dagrejs/dagre'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Schemas } from '../api'
import { count, percent } from '../format'

interface Props {
  graph: Schemas['FollowsGraph']
  paths: { name: string; tools: string[] }[] // flows, drawn as highlighted paths
  on?: string // the path to highlight, by name; the others are drawn quietly
  pick: (tool: string) => void
}

interface Placed {
  width: number
  height: number
  nodes: { name: string; x: number; y: number; w: number; h: number; calls: number }[]
  edges: { from: string; to: string; d: string; mid: { x: number; y: number }; count: number; confidence: number }[]
}

const smooth = (points: { x: number; y: number }[]): string => {
  const [first, ...rest] = points
  if (!first) return ''
  let d = `M${first.x} ${first.y}`
  for (let i = 0; i < rest.length - 1; i++) {
    const p = rest[i]!
    const next = rest[i + 1]!
    d += `Q${p.x} ${p.y} ${(p.x + next.x) / 2} ${(p.y + next.y) / 2}`
  }
  const last = rest.at(-1)
  return last ? `${d}L${last.x} ${last.y}` : d
}

function layout(graph: Schemas['FollowsGraph']): Placed {
  const g = new dagre.graphlib.Graph({ multigraph: false })
  g.setGraph({ rankdir: 'LR', nodesep: 26, ranksep: 70, marginx: 12, marginy: 12, acyclicer: 'greedy' })
  g.setDefaultEdgeLabel(() => ({}))
  const most = Math.max(1, ...graph.tools.map((t) => t.calls))
  for (const t of graph.tools) {
    const share = Math.sqrt(t.calls / most)
    g.setNode(t.name, { width: Math.max(70, t.name.length * 6.6 + 18), height: 20 + 22 * share })
  }
  for (const e of graph.edges) if (e.from !== e.to) g.setEdge(e.from, e.to, { weight: Math.max(1, Math.round(Math.log2(e.count + 1))) })
  dagre.layout(g)
  const size = g.graph()
  const calls = new Map(graph.tools.map((t) => [t.name, t.calls]))
  const nodes = g.nodes().map((name: string) => {
    const n = g.node(name)
    return { name, x: n.x ?? 0, y: n.y ?? 0, w: n.width, h: n.height, calls: calls.get(name) ?? 0 }
  })
  const edges = graph.edges.map((e) => {
    if (e.from === e.to) {
      const n = g.node(e.from)
      const x = n.x ?? 0
      const y = (n.y ?? 0) - n.height / 2
      return { ...e, d: `M${x - 12} ${y}C${x - 24} ${y - 26} ${x + 24} ${y - 26} ${x + 12} ${y}`, mid: { x, y: y - 20 } }
    }
    const points = (g.edge(e.from, e.to).points ?? []) as { x: number; y: number }[]
    return { ...e, d: smooth(points), mid: points[Math.floor(points.length / 2)] ?? { x: 0, y: 0 } }
  })
  return { width: size.width ?? 0, height: size.height ?? 0, nodes, edges }
}

export function FollowsGraph({ graph, paths, on, pick }: Props) {
  const placed = useMemo(() => layout(graph), [graph])
  const box = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ x: 0, y: 0, k: 1 })
  const [hot, setHot] = useState<string | null>(null)
  const drag = useRef<{ x: number; y: number } | null>(null)
  const fit = () => {
    const el = box.current
    if (!el || placed.width === 0) return
    const k = Math.min(1.2, Math.max(0.35, Math.min(el.clientWidth / placed.width, el.clientHeight / placed.height)))
    setView({ k, x: Math.max(0, (el.clientWidth - placed.width * k) / 2), y: Math.max(0, (el.clientHeight - placed.height * k) / 2) })
  }
  const moved = useRef(false) // by hand: then it stays where it is
  useEffect(() => {
    moved.current = false
    const watch = new ResizeObserver(() => moved.current || fit())
    if (box.current) watch.observe(box.current)
    return () => watch.disconnect()
  }, [placed])
  const zoom = (by: number, at?: { x: number; y: number }) => {
    moved.current = true
    setView((v) => {
      const k = Math.min(3, Math.max(0.2, v.k * by))
      const c = at ?? { x: (box.current?.clientWidth ?? 0) / 2, y: (box.current?.clientHeight ?? 0) / 2 }
      return { k, x: c.x - ((c.x - v.x) / v.k) * k, y: c.y - ((c.y - v.y) / v.k) * k }
    })
  }
  const pan = (x: number, y: number) => {
    moved.current = true
    setView((v) => ({ ...v, x: v.x + x, y: v.y + y }))
  }
  useEffect(() => {
    const el = box.current
    const wheel = (e: WheelEvent) => {
      if (!e.ctrlKey && !e.metaKey) return // plain wheel scrolls the page
      e.preventDefault()
      const r = el!.getBoundingClientRect()
      zoom(e.deltaY < 0 ? 1.1 : 1 / 1.1, { x: e.clientX - r.left, y: e.clientY - r.top })
    }
    el?.addEventListener('wheel', wheel, { passive: false })
    return () => el?.removeEventListener('wheel', wheel)
  }, [])
  const walked = useMemo(() => {
    const out = new Map<string, string>()
    for (const p of paths) if (!on || p.name === on) p.tools.slice(1).forEach((to, i) => out.set(`${p.tools[i]}\n${to}`, p.name))
    return out
  }, [paths, on])
  const most = Math.max(1, ...graph.edges.map((e) => e.count))
  const calls = Math.max(1, ...graph.tools.map((t) => t.calls))
  const near = (e: { from: string; to: string }) => hot === null || e.from === hot || e.to === hot
  const keys: Record<string, () => void> = {
    ArrowLeft: () => pan(40, 0), ArrowRight: () => pan(-40, 0), ArrowUp: () => pan(0, 40), ArrowDown: () => pan(0, -40), '+': () => zoom(1.2), '=': () => zoom(1.2), '-': () => zoom(1 / 1.2), '0': fit,
  }
  return (
    <div
      class="graph"
      ref={box}
      tabIndex={0}
      role="group"
      aria-label={`Which tool follows which: ${graph.tools.length} tools, ${graph.edges.length} edges. Arrow keys move, plus and minus zoom, 0 fits. The table below has the same in words.`}
      onKeyDown={(e) => {
        const fn = keys[e.key]
        if (fn && e.target === e.currentTarget) {
          e.preventDefault()
          fn()
        }
      }}
      onPointerDown={(e) => {
        drag.current = { x: e.clientX, y: e.clientY }
      }}
      onPointerMove={(e) => {
        if (!drag.current || e.buttons !== 1) return
        pan(e.clientX - drag.current.x, e.clientY - drag.current.y)
        drag.current = { x: e.clientX, y: e.clientY }
      }}
      onPointerUp={() => (drag.current = null)}
    >
      <svg width="100%" height="100%">
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0L8 4L0 8z" />
          </marker>
        </defs>
        <g transform={`translate(${view.x} ${view.y}) scale(${view.k})`}>
          {placed.edges.map((e) => {
            const path = walked.get(`${e.from}\n${e.to}`)
            return (
              <g key={`${e.from}\n${e.to}`} class={`follow-edge${path ? ' paved' : ''}${near(e) ? '' : ' far'}`}>
                <path d={e.d} stroke-width={0.8 + 5 * Math.sqrt(e.count / most)} marker-end="url(#arrow)">
                  <title>{`${e.from} → ${e.to}: ${count(e.count)} times, ${percent(e.confidence)} of the calls of ${e.from}${path ? `, in flow ${path}` : ''}`}</title>
                </path>
                {(hot !== null ? near(e) : e.confidence >= 0.15) && (
                  <text x={e.mid.x} y={e.mid.y - 4} text-anchor="middle">
                    {percent(Math.round(e.confidence * 100) / 100)}
                  </text>
                )}
              </g>
            )
          })}
          {placed.nodes.map((n) => (
            <g key={n.name} class="follow-node" transform={`translate(${n.x - n.w / 2} ${n.y - n.h / 2})`} onMouseEnter={() => setHot(n.name)} onMouseLeave={() => setHot(null)} onClick={() => pick(n.name)}>
              <title>{`${n.name}: ${count(n.calls)} calls`}</title>
              <rect width={n.w} height={n.h} rx="4" fill-opacity={0.1 + 0.5 * (n.calls / calls)} />
              <text x={n.w / 2} y={n.h / 2 + 4} text-anchor="middle">
                {n.name}
              </text>
            </g>
          ))}
        </g>
      </svg>
      <div class="graph-tools">
        <button type="button" class="small" aria-label="Zoom in" onClick={() => zoom(1.2)}>
          +
        </button>
        <button type="button" class="small" aria-label="Zoom out" onClick={() => zoom(1 / 1.2)}>
          −
        </button>
        <button type="button" class="small" onClick={fit}>
          fit
        </button>
      </div>
    </div>
  )
}
