import { useState } from 'preact/hooks'
import { del, get, patch, post, useData, usePages, type Schemas } from '../../api'
import { Ago, count, Time } from '../../format'
import { Cells, type Head } from '../../parts/cells'
import { Ask, Form, Several, Text } from '../../parts/form'
import { State, Tag } from '../../parts/marks'
import { Card, Dialog, useAction } from '../../parts/page'
import { Problem, Show } from '../../parts/states'
import { Tree } from '../../parts/tree'
import { useParam } from '../../router'
import { Secret } from './secret'

type Hook = Schemas['Webhook']
type Delivery = Schemas['Delivery']

const events: Schemas['WebhookEvent'][] = ['proposal.created', 'review.submitted', 'proposal.approved', 'flow.promoted', 'flow.rollout_changed', 'flow.rolled_back', 'flow.needs_review', 'run.failed', 'drift.detected']

const head: Head[] = ['Address', 'Events', 'State', 'Made', { name: 'Actions', hidden: true }]

export function Webhooks() {
  const hooks = useData('webhooks', (signal) => get('/api/v1/webhooks', { signal }))
  const [making, setMaking] = useState(false)
  const [ending, setEnding] = useState<Hook>()
  const [at, setAt] = useParam('hook')
  const act = useAction((work: () => Promise<unknown>) => work().then(hooks.reload))
  const test = useAction((id: string) => post('/api/v1/webhooks/{id}/test', { path: { id } }).then(() => setAt(id)))
  const shown = hooks.data?.items.find((h) => h.id === at)
  const done = () => (setMaking(false), setEnding(undefined), hooks.reload())
  return (
    <>
      <Card title="Webhooks" actions={<button type="button" class="primary" onClick={() => setMaking(true)}>New webhook…</button>} tight>
        <Show of={hooks}>
          {(page) =>
            page.items.length === 0 ? (
              <p class="pad dim">Nobody is told of events yet. A webhook gets them as signed JSON, at least once: proposals, reviews, promotions, failed runs, drift.</p>
            ) : (
              <Cells label="Webhooks" head={head}>
                {page.items.map((h) => (
                  <tr key={h.id} class={h.id === at ? 'at' : ''}>
                    <td class="mono">{h.url}</td>
                    <td>{h.events.length ? h.events.join(', ') : 'all'}</td>
                    <td>
                      <State of={h.state} /> <span class="dim">{h.reason}</span>
                      {h.failing_since && (
                        <>
                          {' '}
                          <span class="state warn">▲ failing</span> since <Time at={h.failing_since} />
                        </>
                      )}
                    </td>
                    <td>
                      <Ago at={h.created_at} />
                    </td>
                    <td class="row-actions">
                      <button type="button" class="link" aria-expanded={h.id === at} onClick={() => setAt(h.id === at ? '' : h.id)}>
                        deliveries
                      </button>
                      <button type="button" class="link" disabled={test.busy} onClick={() => void test.run(h.id)}>
                        test
                      </button>
                      <button type="button" class="link" disabled={act.busy} onClick={() => void act.run(() => patch('/api/v1/webhooks/{id}', { path: { id: h.id }, body: { state: h.state === 'active' ? 'paused' : 'active' }, ifMatch: h.revision }))}>
                        {h.state === 'active' ? 'pause' : 'activate'}
                      </button>
                      <button type="button" class="link" onClick={() => setEnding(h)}>
                        remove
                      </button>
                    </td>
                  </tr>
                ))}
              </Cells>
            )
          }
        </Show>
        {(test.error ?? act.error) && <Problem error={(test.error ?? act.error)!} />}
      </Card>
      {shown && <Deliveries key={shown.id} hook={shown} />}
      {making && <NewHook close={done} />}
      {ending && (
        <Ask title={`Remove the webhook to ${ending.url}`} close={done} submit="Remove" danger act={() => del('/api/v1/webhooks/{id}', { path: { id: ending.id }, ifMatch: ending.revision }).then(done)}>
          <p>What waits for it is dropped.</p>
        </Ask>
      )}
    </>
  )
}

const logHead: Head[] = ['Event', 'When', 'State', { name: 'Attempts', num: true }, { name: 'Answer', title: 'HTTP status of the last attempt, or why there was none' }, 'Next attempt', { name: 'Actions', hidden: true }]

/** What went or goes to a webhook; it is read again while something waits. */
function Deliveries({ hook }: { hook: Hook }) {
  const list = usePages(`deliveries ${hook.id}`, (cursor, signal) => get('/api/v1/webhooks/{id}/deliveries', { path: { id: hook.id }, query: { limit: 50, cursor }, signal }), 3000)
  const again = useAction((delivery: string) => post('/api/v1/webhooks/{id}/deliveries/{delivery}/redeliver', { path: { id: hook.id, delivery } }).then(list.reload))
  const [body, setBody] = useState<Delivery>()
  return (
    <Card title={<>Deliveries to <span class="mono">{hook.url}</span></>} tight>
      <Show of={list}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="pad dim">Nothing has happened that it asked for.</p>
          ) : (
            <Cells label="Deliveries" head={logHead}>
              {rows.map((d) => (
                <tr key={d.id}>
                  <td class="whole">
                    <code>{d.event}</code>
                  </td>
                  <td>
                    <Time at={d.at} />
                  </td>
                  <td>
                    <State of={d.state} />
                  </td>
                  <td class="num">{count(d.attempts)}</td>
                  <td>
                    {d.status !== undefined && <Tag>{d.status}</Tag>} <span class="dim">{d.error}</span>
                  </td>
                  <td>{d.next_at ? <Time at={d.next_at} /> : <span class="dim">–</span>}</td>
                  <td class="row-actions">
                    <button type="button" class="link" onClick={() => setBody(d)}>
                      body
                    </button>
                    <button type="button" class="link" disabled={again.busy} onClick={() => void again.run(d.id)}>
                      send again
                    </button>
                  </td>
                </tr>
              ))}
            </Cells>
          )
        }
      </Show>
      {list.more && (
        <button type="button" class="link pad" onClick={list.more}>
          older ones
        </button>
      )}
      {again.error && <Problem error={again.error} />}
      {body && (
        <Dialog title={body.event} close={() => setBody(undefined)} wide>
          <Tree value={body.body} depth={3} />
          <div class="actions">
            <button type="button" data-first onClick={() => setBody(undefined)}>
              Close
            </button>
          </div>
        </Dialog>
      )}
    </Card>
  )
}

function NewHook({ close }: { close: () => void }) {
  const [url, setUrl] = useState('')
  const [chosen, setChosen] = useState<Schemas['WebhookEvent'][]>([])
  const [made, setMade] = useState<Schemas['WebhookCreated']>()
  if (made)
    return (
      <Secret title="The key of its signatures" secret={made.secret} close={close}>
        Each request has <code>Pave-Signature: t=UNIX,v1=HEX</code>, the HMAC-SHA-256 of <code>UNIX.BODY</code> under this key. It is shown only now.
      </Secret>
    )
  return (
    <Dialog title="New webhook" close={close}>
      <Form submit="Subscribe" cancel={close} ready={url !== ''} act={async () => setMade(await post('/api/v1/webhooks', { body: { url, ...(chosen.length ? { events: chosen } : {}) } }))}>
        <Text label="Address" hint="Events are posted there as JSON, signed, at least once" type="url" value={url} set={setUrl} first required placeholder="https://" />
        <Several legend="Events (none chosen: all)" options={events.map((e) => [e, ''])} chosen={chosen} set={setChosen} />
      </Form>
    </Dialog>
  )
}
