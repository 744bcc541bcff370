// What is kept and for how long, what is hidden before it is stored, what could not be read, and deletion.
import { useState } from 'preact/hooks'
import { del, get, post, useData, usePages, type Schemas } from '../../api'
import { Ago, count, plural, Time } from '../../format'
import { Cells, type Head } from '../../parts/cells'
import { Ask, Form, Text } from '../../parts/form'
import { Card, useAction } from '../../parts/page'
import { Problem, Show } from '../../parts/states'
import { Tree } from '../../parts/tree'

export function Data() {
  const service = useData('service', (signal) => get('/api/v1/service', { signal }), 15_000)
  return (
    <div class="split even">
      <div>
        <Show of={service}>{(s) => <Kept s={s} reload={service.reload} />}</Show>
        <Show of={service} rows={3}>{(s) => <NotTaken s={s} />}</Show>
      </div>
      <Redaction />
    </div>
  )
}

function Kept({ s, reload }: { s: Schemas['Service']; reload: () => void }) {
  const [deleting, setDeleting] = useState(false)
  return (
    <Card
      title="What is kept"
      actions={
        <button type="button" class="danger" onClick={() => setDeleting(true)}>
          Delete sessions…
        </button>
      }
    >
      <dl class="facts">
        <dt>Sessions are kept</dt>
        <dd>{s.retention_days > 0 ? `${plural(s.retention_days, 'day')} after their start` : 'for ever'}</dd>
        <dt>Sessions</dt>
        <dd>{count(s.stored.sessions)}</dd>
        <dt>Tool calls</dt>
        <dd>{count(s.stored.tool_calls)}</dd>
        <dt>LLM calls</dt>
        <dd>{count(s.stored.llm_calls)}</dd>
        <dt>Finished flow runs</dt>
        <dd>{count(s.stored.runs)}</dd>
        {s.stored.bytes !== undefined && (
          <>
            <dt>On disk</dt>
            <dd>{count(Math.round(s.stored.bytes / 100_000) / 10)} MB</dd>
          </>
        )}
      </dl>
      <p class="dim">
        To change it, set <code>retention.days</code> in <code>pave.yaml</code>, or <code>PAVE_RETENTION_DAYS</code>, and start the service again; 0 keeps everything. What is older is deleted for
        good, and the audit log says how much.
      </p>
      {deleting && <Delete close={() => setDeleting(false)} done={reload} />}
    </Card>
  )
}

/** Deletes sessions for good, by ids, user or time, and shows the receipt. */
function Delete({ close, done }: { close: () => void; done: () => void }) {
  const [ids, setIds] = useState('')
  const [user, setUser] = useState('')
  const [before, setBefore] = useState('')
  const [receipt, setReceipt] = useState<Schemas['DeletionReceipt']>()
  const sessions = ids.split(/\s+/).filter(Boolean)
  const act = async () => {
    const body = sessions.length ? { sessions } : { ...(user ? { user } : {}), ...(before ? { to: new Date(before).toISOString() } : {}) }
    setReceipt(await post('/api/v1/deletions', { body, key: crypto.randomUUID() }))
    done()
  }
  if (receipt)
    return (
      <Ask title="Deleted" close={close} submit="Done" act={async () => close()}>
        <p>
          {plural(receipt.sessions, 'session')} with {plural(receipt.tool_calls, 'tool call')} ({plural(receipt.events, 'record')}) are gone for good. Receipt <code>{receipt.id}</code>, by{' '}
          <span class="mono">{receipt.by}</span>, <Time at={receipt.at} />.
        </p>
      </Ask>
    )
  const ready = sessions.length > 0 ? !user && !before : user !== '' || before !== ''
  return (
    <Ask title="Delete sessions for good" close={close} submit="Delete for good" danger ready={ready} act={act}>
      <Text label="Sessions" hint="Their ids, by space or line" rows={3} mono first value={ids} set={setIds} />
      <Text label="or those of a user" hint="Whose records have this as user, user_id, user.id or enduser.id" value={user} set={setUser} />
      <Text label="that started before" type="datetime-local" value={before} set={setBefore} hint={ready || (!ids && !user && !before) ? 'Local time' : 'Give either ids, or a user and a time or one of them'} />
    </Ask>
  )
}

const reasons: Record<string, string> = {
  too_large: 'larger than the limit', too_long: 'an id or name is too long', no_id: 'no id', tool_name: 'no usable tool name', invalid: 'not of the form that is asked for', unsupported_media: 'a content type that is not read',
}

const ways: Record<string, string> = { json: 'JSON', traces: 'OpenTelemetry traces', logs: 'OpenTelemetry logs', metrics: 'OpenTelemetry metrics' }

const lostHead: Head[] = ['Sent as', 'Why', { name: 'How many', num: true }, 'Last']

function NotTaken({ s }: { s: Schemas['Service'] }) {
  return (
    <>
      <Card title="What could not be used" tight>
        <p class="pad dim">
          Since the service started, <Time at={s.started_at} />.
        </p>
        {s.lost.length === 0 ? (
          <p class="pad state good">● Everything that was sent could be used.</p>
        ) : (
          <Cells label="What could not be used" head={lostHead}>
            {s.lost.map((l) => (
              <tr key={l.via + l.what + l.reason}>
                <td>{ways[l.via] ?? l.via}</td>
                <td>
                  {reasons[l.reason] ?? l.reason} <code class="dim">{l.reason}</code>
                </td>
                <td class="num">{plural(l.count, l.what.replace(/s$/, ''))}</td>
                <td>
                  <Ago at={l.last_at} />
                </td>
              </tr>
            ))}
          </Cells>
        )}
      </Card>
      {s.dead_letters > 0 && <DeadLetters />}
    </>
  )
}

const letterHead: Head[] = ['Received', 'Form', { name: 'Size', num: true }, 'Why', { name: 'Actions', hidden: true }]

/** Telemetry requests that could not be read and are kept, to be taken again or dropped. */
function DeadLetters() {
  const list = usePages('dead-letters', (cursor, signal) => get('/api/v1/dead-letters', { query: { limit: 50, cursor }, signal }))
  const act = useAction((work: () => Promise<unknown>) => work().then(list.reload))
  return (
    <Card title="Kept because it could not be read" tight>
      <Show of={list}>
        {(rows) => (
          <Cells label="Requests that could not be read" head={letterHead}>
            {rows.map((l) => (
              <tr key={l.id}>
                <td>
                  <Ago at={l.received_at} />
                </td>
                <td>
                  {l.signal}, {l.encoding}
                </td>
                <td class="num">{count(l.bytes)} B</td>
                <td class="dim">{l.reason}</td>
                <td class="row-actions">
                  <button type="button" class="link" disabled={act.busy} onClick={() => void act.run(() => post('/api/v1/dead-letters/{id}/retry', { path: { id: l.id } }))}>
                    take again
                  </button>
                  <button type="button" class="link" disabled={act.busy} onClick={() => void act.run(() => del('/api/v1/dead-letters/{id}', { path: { id: l.id } }))}>
                    drop
                  </button>
                </td>
              </tr>
            ))}
          </Cells>
        )}
      </Show>
      {act.error && <Problem error={act.error} />}
    </Card>
  )
}

const sample = '{"tool": "charge_card", "args": {"api_key": "sk-live-51H8aExample0123456789abcdef", "email": "ada@example.com"}}'

/** What would become of a payload before it is stored; nothing of it is kept. */
function Redaction() {
  const [text, setText] = useState('')
  const [shown, setShown] = useState<Schemas['RedactionPreview']>()
  let payload: unknown
  let fault = ''
  try {
    payload = text.trim() ? JSON.parse(text) : undefined
  } catch (e) {
    fault = `not JSON: ${e instanceof Error ? e.message : ''}`
  }
  return (
    <Card title="What is hidden before anything is stored">
      <Form
        submit="Show what would be stored"
        ready={payload !== undefined}
        act={async () => setShown(await post('/api/v1/redaction-previews', { body: { payload } }))}
        note={
          <button type="button" class="link" onClick={() => setText(sample)}>
            an example
          </button>
        }
      >
        <Text label="A payload as JSON" hint="Such as a call with its arguments and result. Nothing of it is kept." fault={fault} rows={8} mono value={text} set={(t) => (setText(t), setShown(undefined))} />
      </Form>
      {shown && (
        <div class="preview" aria-live="polite">
          <h3>As it would be stored: {shown.marks.length === 0 ? 'nothing is hidden' : plural(shown.marks.length, 'value') + ' hidden'}</h3>
          <Tree value={shown.payload} depth={6} />
          {shown.marks.length > 0 && (
            <Cells label="What was hidden" head={['Where', 'Kind']}>
              {shown.marks.map((m, i) => (
                <tr key={i}>
                  <td>
                    <code>{m.pointer || '/'}</code>
                  </td>
                  <td>{m.kind}</td>
                </tr>
              ))}
            </Cells>
          )}
        </div>
      )}
      <p class="dim">
        Keys, tokens and passwords are replaced before anything is written; equal secrets get equal marks, so that data flow stays visible. More patterns go into <code>ingest.yaml</code> of the data
        directory.
      </p>
    </Card>
  )
}
