// Small marks: states, safety, figures. Status colours differ in shape, too.
import type { ComponentChildren } from 'preact'
import type { Schemas } from '../api'
import { words } from '../format'
import { Link, to } from '../router'

type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'calm'

const shapes: Record<Tone, string> = { good: '●', warn: '▲', bad: '■', busy: '◐', calm: '○' }

const tones: Record<string, Tone> = {
  proposed: 'calm', in_review: 'busy', changes_requested: 'warn', approved: 'good', promoted: 'good', rejected: 'bad', withdrawn: 'calm', superseded: 'calm',
  active: 'good', needs_review: 'warn', disabled: 'bad',
  running: 'busy', succeeded: 'good', failed: 'bad', handed_back: 'warn', denied: 'calm', cancelled: 'calm', interrupted: 'warn', awaiting_approval: 'busy', waiting: 'busy',
  ok: 'good', error: 'bad', unknown: 'calm', requested: 'calm', done: 'good', paused: 'calm', delivered: 'good', pending: 'busy',
}

export function State({ of, text }: { of: string; text?: string }) {
  const tone = tones[of] ?? 'calm'
  return (
    <span class={`state ${tone}`}>
      <span aria-hidden="true">{shapes[tone]}</span> {text ?? words(of)}
    </span>
  )
}

const safetyNotes: Record<string, string> = {
  none: 'computes only', read: 'reads, changes nothing', write: 'changes data of its own system', external: 'acts outside, or its effects are not known', destructive: 'deletes or cannot be undone',
}

export function Safety({ of }: { of?: string }) {
  const level = of || 'unknown'
  return (
    <span class={`safety s-${level}`} title={safetyNotes[level] ?? 'nobody declared what this tool does to the world; it counts as external'}>
      {level === 'read' ? 'read-only' : level}
    </span>
  )
}

export const Tag = ({ children, title }: { children: ComponentChildren; title?: string }) => (
  <span class="tag" title={title}>
    {children}
  </span>
)

/** A figure with its unit and its definition on hover. */
export function Figure({ label, value, note, title, bounds, children }: { label: string; value: ComponentChildren; note?: ComponentChildren; title: string; bounds?: string; children?: ComponentChildren }) {
  return (
    <div class="figure" title={bounds ? `${title}: ${bounds}` : title}>
      <div class="figure-label">{label}</div>
      <div class="figure-value">{value}</div>
      <div class="figure-note">{note}</div>
      {children}
    </div>
  )
}

export const ToolName = ({ name }: { name: string }) => (
  <Link to={to('tools', name)} class="mono">
    {name}
  </Link>
)

/** A sequence of tools in one line, cut by the cell that holds it; the whole is on hover. */
export function Steps({ tools }: { tools: string[] }) {
  return (
    <span class="steps mono" title={tools.join(' → ')}>
      {tools.map((t, i) => (
        <span key={i}>
          {i > 0 && <span class="dim"> → </span>}
          {t}
        </span>
      ))}
    </span>
  )
}

export const Digest = ({ of }: { of: string }) => (
  <code class="dim" title={of}>
    {of.slice(0, 8)}
  </code>
)

export function savingsOf(s: Schemas['Savings']) {
  const calls = s.llm_calls_per_run
  return { known: calls.known > 0, calls, tokens: s.tokens_per_run, cost: s.cost_usd_per_run, time: s.latency_ms_per_run }
}
