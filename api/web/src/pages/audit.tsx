import { useState } from 'preact/hooks'
import { get, usePages, type Schemas } from '../api'
import { plural, Time } from '../format'
import { State } from '../parts/marks'
import { Dialog, Page, useAction, useTitle } from '../parts/page'
import { ListOf, type Column } from '../parts/table'
import { Tree } from '../parts/tree'
import { Link, to, useParam } from '../router'

type Row = Schemas['AuditEvent']

/** The page of an audit event's object, where it has one. */
function place(object: string): string | null {
  const [kind, ...rest] = object.split('/')
  const id = rest.join('/')
  switch (kind) {
    case 'proposal':
      return to('proposals', id)
    case 'tool':
      return to('tools', id)
    case 'run':
      return to('runs', id)
    case 'flow': {
      const [name = '', version] = id.split('@')
      return version ? to('flows', name, version) : to('flows', name)
    }
    case 'key':
      return '/settings/keys'
    case 'policy':
      return '/settings/policy'
  }
  return null
}

/** Checks that nothing was taken out or changed, and hands out the whole log. */
function Chain() {
  const [found, setFound] = useState<Schemas['AuditVerification']>()
  const check = useAction(async () => setFound(await get('/api/v1/audit-events/verification')))
  return (
    <>
      <span aria-live="polite">
        {found && (found.intact ? <State of="ok" text={`${plural(found.events, 'entry', 'entries')}, as written`} /> : <State of="failed" text={found.detail ?? 'the chain is broken'} />)}
        {check.error && <State of="failed" text={check.error.message} />}
      </span>
      <button type="button" disabled={check.busy} onClick={() => void check.run()}>
        Check the seals
      </button>
      <a class="button" href="/api/v1/audit-events/export" download="audit.ndjson">
        Export
      </a>
    </>
  )
}

export function AuditPage() {
  useTitle('Audit')
  const [text, setText] = useParam('q')
  const [shown, setShown] = useState<Row | null>(null)
  const list = usePages('audit', (cursor, signal) => get('/api/v1/audit-events', { query: { limit: 500, order: 'desc', cursor }, signal }))
  const want = text.trim().toLowerCase()
  const rows = list.data?.filter((e) => !want || `${e.actor} ${e.action} ${e.object}`.toLowerCase().includes(want))
  const columns: Column<Row>[] = [
    { head: '№', num: true, width: '64px', cell: (e) => e.seq },
    { head: 'When', width: '172px', cell: (e) => <Time at={e.at} /> },
    { head: 'Who', width: '20%', cell: (e) => <span class="mono">{e.actor}</span> },
    { head: 'Did', width: '18%', cell: (e) => <code>{e.action}</code> },
    { head: 'To what', cell: (e) => (place(e.object) ? <Link to={place(e.object)!} class="mono">{e.object}</Link> : <span class="mono">{e.object}</span>) },
    { head: 'Seal', title: 'Each entry holds the hash of the one before, so that nothing can be taken out unseen', width: '100px', hide: 'narrow', cell: (e) => <code class="dim" title={e.sum}>{e.sum.slice(0, 8)}</code> },
    { head: <span class="sr">Detail</span>, width: '76px', cell: (e) => (e.detail == null ? null : <button type="button" class="link" onClick={() => setShown(e)} aria-label={`Detail of entry ${e.seq}`}>detail</button>) },
  ]
  return (
    <Page fill title="Audit" lead="Who changed what, and when? Newest first; every entry seals the one before." actions={<Chain />}>
      <div class="filters" role="search">
        <input type="search" aria-label="Filter by actor, action or object" placeholder="Who, what, or which object" size={28} value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </div>
      <ListOf of={{ ...list, data: rows }} columns={columns} id={(e) => String(e.seq)} label="Audit log" open={setShown} empty={want ? 'No entry passes this filter' : 'Nothing has been changed yet'} />
      {shown && (
        <Dialog title={`${shown.action} ${shown.object}`} close={() => setShown(null)} wide>
          <p>
            <span class="mono">{shown.actor}</span>, <Time at={shown.at} />
          </p>
          <Tree value={shown.detail} depth={4} />
          <p class="dim">
            <code>{shown.sum}</code>
          </p>
          <div class="actions">
            <button type="button" data-first onClick={() => setShown(null)}>
              Close
            </button>
          </div>
        </Dialog>
      )}
    </Page>
  )
}
