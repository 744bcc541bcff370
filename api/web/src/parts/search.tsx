// Jump to anything by name: pages, proposals, flows, tools, and a session or run by its id.
import { useMemo, useState } from 'preact/hooks'
import { get, useData } from '../api'
import { navigate, to } from '../router'
import { Dialog } from './page'

interface Found {
  to: string
  kind: string
  name: string
}

export function Search({ close, places }: { close: () => void; places: [string, string][] }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const proposals = useData('search-proposals', (signal) => get('/api/v1/proposals', { query: { limit: 500 }, signal }))
  const flows = useData('search-flows', (signal) => get('/api/v1/flows', { query: { limit: 500 }, signal }))
  const tools = useData('search-tools', (signal) => get('/api/v1/tools', { query: { limit: 500 }, signal }))
  const all = useMemo<Found[]>(
    () => [
      ...places.map(([at, name]) => ({ to: at, kind: 'page', name })),
      ...(flows.data?.items ?? []).map((f) => ({ to: to('flows', f.name), kind: 'flow', name: f.name })),
      ...(proposals.data?.items ?? []).map((p) => ({ to: to('proposals', p.id), kind: 'proposal', name: p.flow_name })),
      ...(tools.data?.items ?? []).map((t) => ({ to: to('tools', t.name), kind: 'tool', name: t.name })),
    ],
    [flows.data, proposals.data, tools.data],
  )
  const want = text.trim().toLowerCase()
  const hits = all.filter((f) => f.name.toLowerCase().includes(want)).slice(0, 12)
  if (want.length > 3) hits.push({ to: to('sessions', text.trim()), kind: 'session by id', name: text.trim() }, { to: to('runs', text.trim()), kind: 'run by id', name: text.trim() })
  const go = (f?: Found) => {
    if (!f) return
    close()
    navigate(f.to)
  }
  return (
    <Dialog title="Search" close={close}>
      <input
        data-first
        type="search"
        aria-label="Name or id"
        placeholder="Name of a flow, tool or proposal, or the id of a session or run"
        value={text}
        {...({ role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'found', 'aria-activedescendant': hits[at] ? `found-${at}` : undefined } as object)}
        onInput={(e) => (setText(e.currentTarget.value), setAt(0))}
        onKeyDown={(e) => {
          if (e.key === 'ArrowDown') setAt(Math.min(at + 1, hits.length - 1))
          else if (e.key === 'ArrowUp') setAt(Math.max(at - 1, 0))
          else if (e.key === 'Enter') go(hits[at])
          else return
          e.preventDefault()
        }}
      />
      <ul class="found" id="found" role="listbox" aria-label="Found">
        {hits.map((f, i) => (
          <li key={f.to} id={`found-${i}`} role="option" aria-selected={i === at} onMouseEnter={() => setAt(i)} onClick={() => go(f)}>
            <span>{f.name}</span>
            <span class="dim">{f.kind}</span>
          </li>
        ))}
        {hits.length === 0 && (
          <li role="option" aria-selected="false" aria-disabled="true">
            <span class="dim">nothing has this name</span>
          </li>
        )}
      </ul>
    </Dialog>
  )
}
