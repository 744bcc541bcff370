// Edit a draft with its check beside it: every change is compiled against the registered tools at once.
import { useEffect, useState } from 'preact/hooks'
import { ApiError, send, type Schemas } from '../api'
import { Problem } from '../parts/states'
import { State } from '../parts/marks'
import { yamlText } from '../yaml'

type Report = Schemas['CompileReport']

const pause = 350

/** Compiles YAML a moment after the last keystroke. */
export function useCompiled(text: string) {
  const [state, set] = useState<{ report?: Report; error?: ApiError }>({})
  useEffect(() => {
    const stop = new AbortController()
    const timer = setTimeout(() => {
      send('POST', '/api/v1/flows/compile', { body: text, type: 'application/yaml', signal: stop.signal })
        .then((r) => r.json() as Promise<Report>)
        .then((report) => set({ report }))
        .catch((error: unknown) => error instanceof ApiError && set({ error }))
    }, pause)
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [text])
  return state
}

export function EditFlow({ p }: { p: Schemas['Proposal']; saved: () => void }) {
  const [text, setText] = useState(() => yamlText(p.flow))
  const { report, error } = useCompiled(text)
  return (
    <div class="edit">
      <textarea class="code-edit" aria-label="The flow as YAML" spellcheck={false} value={text} rows={Math.min(40, text.split('\n').length + 1)} onInput={(e) => setText(e.currentTarget.value)} />
      <Checked report={report} error={error} />
    </div>
  )
}

export function Checked({ report, error }: { report?: Report; error?: ApiError }) {
  if (error) return <Problem error={error} />
  if (!report) return <p class="dim pad">checking…</p>
  return (
    <div class="checked" aria-live="polite">
      <p>
        {report.ok ? <State of="ok" text="compiles" /> : <State of="failed" text="does not compile" />} <code class="dim">{report.digest.slice(0, 8)}</code>
      </p>
      <ul class="plain">
        {report.diagnostics.map((d, i) => (
          <li key={i}>
            <span class={`state ${d.severity === 'error' ? 'bad' : 'warn'}`}>{d.severity === 'error' ? '■' : '▲'}</span> <code>{d.pointer}</code> {d.message}
          </li>
        ))}
      </ul>
    </div>
  )
}
