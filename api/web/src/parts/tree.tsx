// A JSON value as a tree that unfolds. Everything is text; redacted parts and long texts are marked.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'

interface TreeProps {
  value: unknown
  depth?: number // how many levels are open at first
  hot?: (value: unknown) => boolean // values to light up
  pick?: (value: unknown) => void
}

const longText = 160
const manyItems = 60

const whole = /^\[?(redacted|REDACTED)\b|^<redacted|^\*\*\*|^redacted:/
const mark = /(\[redacted:[a-z0-9_-]+:[0-9a-f]{12}\]|\*\*\*REDACTED\*\*\*)/

export const isRedacted = (value: unknown): boolean => typeof value === 'string' && whole.test(value)

const Mark = ({ text }: { text: string }) => (
  <span class="redacted" title="This was hidden before it was stored; equal secrets have equal marks">
    ▒ {text}
  </span>
)

export function Tree(props: TreeProps) {
  if (props.value === undefined) return <span class="dim">nothing</span>
  return (
    <div class="tree">
      <Node {...props} depth={props.depth ?? 2} />
    </div>
  )
}

function Node({ value, depth = 0, hot, pick, name }: TreeProps & { name?: string }) {
  const label = name === undefined ? null : <span class="tree-key">{name}: </span>
  if (value === null || typeof value !== 'object')
    return (
      <div class="tree-row">
        {label}
        <Scalar value={value} hot={hot} pick={pick} />
      </div>
    )
  const entries = Object.entries(value)
  if (entries.length === 0)
    return (
      <div class="tree-row">
        {label}
        <span class="dim">{Array.isArray(value) ? '[ ]' : '{ }'}</span>
      </div>
    )
  return <Branch {...{ value, depth, hot, pick, label, entries }} />
}

function Branch({ value, depth = 0, hot, pick, label, entries }: TreeProps & { label: ComponentChildren; entries: [string, unknown][] }) {
  const [open, setOpen] = useState(depth > 0)
  const [all, setAll] = useState(false)
  const shown = all ? entries : entries.slice(0, manyItems)
  const list = Array.isArray(value)
  return (
    <div class="tree-branch">
      <button type="button" class="tree-row tree-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span class="tree-mark" aria-hidden="true">
          {open ? '▾' : '▸'}
        </span>
        {label}
        <span class="dim">{list ? `[${entries.length}]` : open ? '{' : `{ ${entries.map(([k]) => k).slice(0, 4).join(', ')}${entries.length > 4 ? ', …' : ''} }`}</span>
      </button>
      {open && (
        <div class="tree-inner">
          {shown.map(([k, v]) => (
            <Node key={k} name={k} value={v} depth={depth - 1} hot={hot} pick={pick} />
          ))}
          {shown.length < entries.length && (
            <button type="button" class="link" onClick={() => setAll(true)}>
              {entries.length - shown.length} more
            </button>
          )}
        </div>
      )}
    </div>
  )
}

function Scalar({ value, hot, pick }: TreeProps) {
  const [all, setAll] = useState(false)
  if (typeof value === 'string' && mark.exec(value)?.[0] === value) return <Mark text={value} />
  if (typeof value === 'string' && mark.test(value))
    return (
      <span class="tree-value t-string">
        "{value.split(mark).map((part, i) => (i % 2 ? <Mark key={i} text={part} /> : part))}"
      </span>
    )
  if (isRedacted(value)) return <Mark text={String(value)} />
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const kind = value === null ? 'null' : typeof value
  const shown = all || text.length <= longText ? text : text.slice(0, longText) + '…'
  const body = kind === 'string' ? `"${shown}"` : shown
  const lit = hot?.(value) ?? false
  return (
    <>
      {pick ? (
        <button type="button" class={`tree-value t-${kind}${lit ? ' hot' : ''}`} aria-pressed={lit} onClick={() => pick(value)}>
          {body}
        </button>
      ) : (
        <span class={`tree-value t-${kind}${lit ? ' hot' : ''}`}>{body}</span>
      )}
      {!all && text.length > longText && (
        <button type="button" class="link" onClick={() => setAll(true)}>
          all {text.length} characters
        </button>
      )}
    </>
  )
}
