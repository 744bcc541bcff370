// A flow file as YAML with its mappings lit up, and the difference of two files.
import { useContext, useMemo } from 'preact/hooks'
import type { Flow } from '../flow'
import { diffLines, yamlLines } from '../yaml'
import { Hot } from './diagram'
import { Copy } from './page'

export function Yaml({ value, flow }: { value: unknown; flow?: Flow }) {
  const { hot, set } = useContext(Hot)
  const lines = useMemo(() => yamlLines(value), [value])
  const mappings = useMemo(() => new Map(flow?.steps.flatMap((s) => (s.forEach ? [s.forEach, ...s.mappings] : s.mappings).map((m) => [m.path, m.id] as const))), [flow])
  const mappingAt = (pointer: string) => {
    for (let at = pointer; at; at = at.slice(0, at.lastIndexOf('/'))) {
      const id = mappings.get(at)
      if (id) return id
    }
    return null
  }
  return (
    <div class="code-box">
      <div class="code-tools">
        <Copy text={lines.map((l) => l.text).join('\n') + '\n'} label="Copy YAML" />
      </div>
      <pre class="code" tabIndex={0} aria-label="The flow as YAML">
        {lines.map((l, i) => {
          const id = mappingAt(l.pointer)
          return (
            <span key={i} class={id && id === hot ? 'line hot' : 'line'} onMouseEnter={id ? () => set(id) : undefined} onMouseLeave={id ? () => set(null) : undefined}>
              <Highlighted text={l.text} />
              {'\n'}
            </span>
          )
        })}
      </pre>
    </div>
  )
}

function Highlighted({ text }: { text: string }) {
  const m = /^(\s*(?:- )*)((?:"(?:[^"\\]|\\.)*"|[^":]+):)( .*)?$/.exec(text)
  if (!m) return <>{text}</>
  return (
    <>
      {m[1]}
      <span class="y-key">{m[2]}</span>
      {m[3]}
    </>
  )
}

export function Diff({ before, after, names }: { before: string; after: string; names: [string, string] }) {
  const lines = useMemo(() => diffLines(before.trimEnd().split('\n'), after.trimEnd().split('\n')), [before, after])
  const changed = lines.filter((l) => l.kind !== 'same').length
  if (changed === 0) return <p class="dim pad">There is no difference between {names[0]} and {names[1]}.</p>
  const near = lines.map((_, i) => lines.slice(Math.max(0, i - 3), i + 4).some((l) => l.kind !== 'same'))
  return (
    <div class="code-box">
      <p class="pad dim">
        − {names[0]} · + {names[1]}
      </p>
      <pre class="code" tabIndex={0} aria-label={`Difference of ${names[0]} and ${names[1]}`}>
        {lines.map((l, i) =>
          near[i] ? (
            <span key={i} class={`line diff-${l.kind}`}>
              {l.kind === 'added' ? '+ ' : l.kind === 'removed' ? '− ' : '  '}
              {l.text}
              {'\n'}
            </span>
          ) : i === 0 || near[i - 1] ? (
            <span key={i} class="line dim">
              {'  ⋯\n'}
            </span>
          ) : null,
        )}
      </pre>
    </div>
  )
}
