import { useState } from 'preact/hooks'
import { del, get, post, useData, type Schemas } from '../../api'
import { Ago, Time } from '../../format'
import { Ask, Check, Choice, Several, Text } from '../../parts/form'
import { State } from '../../parts/marks'
import { Card } from '../../parts/page'
import { Show } from '../../parts/states'
import { Cells, type Head } from '../../parts/cells'
import { Secret } from './secret'

type Key = Schemas['ApiKey']

const scopes: [Schemas['Scope'], string][] = [
  ['ingest', 'record calls'], ['read', 'see everything recorded'], ['propose', 'mine and submit proposals'], ['review', 'approve and reject'],
  ['promote', 'promote, disable, withdraw'], ['run', 'run flows'], ['work', 'answer calls of a worker pool'], ['admin', 'everything'],
]

const day = 86_400

const begins = (k: Key) => `pave_${k.prefix}`

const ended = (k: Key) => k.revoked || (k.expires_at !== undefined && Date.parse(k.expires_at) < Date.now())

const head: Head[] = ['Principal', 'Begins with', 'May', 'Made', 'Last used', 'Ends', 'State', { name: 'Actions', hidden: true }]

export function Keys() {
  const keys = useData('keys', (signal) => get('/api/v1/api-keys', { signal }))
  const [making, setMaking] = useState(false)
  const [turning, setTurning] = useState<Key>()
  const [ending, setEnding] = useState<Key>()
  const [old, setOld] = useState(false)
  const done = () => (setMaking(false), setTurning(undefined), setEnding(undefined), keys.reload())
  const gone = keys.data?.items.filter(ended).length ?? 0
  return (
    <Card
      title="API keys"
      actions={
        <>
          {gone > 0 && (
            <Check checked={old} set={setOld}>
              show {gone} that ended
            </Check>
          )}
          <button type="button" class="primary" onClick={() => setMaking(true)}>
            New key…
          </button>
        </>
      }
      tight
    >
      <Show of={keys}>
        {(page) => (
          <Cells label="API keys" head={head}>
            {page.items.filter((k) => old || !ended(k)).map((k) => (
              <tr key={k.id} class={ended(k) ? 'faded' : ''}>
                <td class="mono">{k.principal}</td>
                <td>
                  <code>{begins(k)}</code>
                </td>
                <td>{k.scopes.length === scopes.length ? 'everything' : k.scopes.join(', ')}</td>
                <td>
                  <Ago at={k.created_at} />
                </td>
                <td>
                  <Ago at={k.last_used} />
                </td>
                <td>{k.expires_at ? <Time at={k.expires_at} /> : <span class="dim">never</span>}</td>
                <td>{k.revoked ? <State of="disabled" text="revoked" /> : ended(k) ? <State of="disabled" text="expired" /> : <State of="active" text="valid" />}</td>
                <td class="row-actions">
                  {!ended(k) && (
                    <>
                      <button type="button" class="link" aria-label={`Rotate the key ${begins(k)}`} onClick={() => setTurning(k)}>
                        rotate
                      </button>
                      <button type="button" class="link" aria-label={`Revoke the key ${begins(k)}`} onClick={() => setEnding(k)}>
                        revoke
                      </button>
                    </>
                  )}
                </td>
              </tr>
            ))}
          </Cells>
        )}
      </Show>
      {making && <NewKey close={done} />}
      {turning && <Rotate k={turning} close={done} />}
      {ending && (
        <Ask title={`Revoke the key of ${ending.principal}`} close={done} submit="Revoke" danger act={() => del('/api/v1/api-keys/{id}', { path: { id: ending.id } }).then(done)}>
          <p>
            Requests with the key that begins with <code>{begins(ending)}</code> are refused from now on. This cannot be undone; to change a key while it is in use, rotate it.
          </p>
        </Ask>
      )}
    </Card>
  )
}

function MadeKey({ made, note, close }: { made: Schemas['ApiKeyCreated']; note: string; close: () => void }) {
  return (
    <Secret title={`The key of ${made.key.principal}`} secret={made.secret} close={close}>
      {note} This is the only time that it is shown.
    </Secret>
  )
}

function NewKey({ close }: { close: () => void }) {
  const [principal, setPrincipal] = useState('')
  const [chosen, setChosen] = useState<Schemas['Scope'][]>(['read'])
  const [days, setDays] = useState('90')
  const [made, setMade] = useState<Schemas['ApiKeyCreated']>()
  if (made) return <MadeKey made={made} note="" close={close} />
  const act = async () => setMade(await post('/api/v1/api-keys', { body: { principal, scopes: chosen, ...(days ? { expires_at: new Date(Date.now() + Number(days) * day * 1000).toISOString() } : {}) } }))
  return (
    <Ask title="New key" close={close} submit="Make the key" act={act} ready={chosen.length > 0}>
      <Text label="Principal" hint="person:<name> or service:<name>; rules compare principals, not keys" value={principal} set={setPrincipal} first required pattern="(person|service):.+" placeholder="person:alice" />
      <Several legend="May" options={scopes} chosen={chosen} set={setChosen} />
      <Choice label="Ends after" value={days} set={setDays} options={[['7', '7 days'], ['30', '30 days'], ['90', '90 days'], ['365', 'a year'], ['', 'never']]} />
    </Ask>
  )
}

/** Makes the successor of a key; both are valid until the old one ends. */
function Rotate({ k, close }: { k: Key; close: () => void }) {
  const [grace, setGrace] = useState(String(day))
  const [made, setMade] = useState<Schemas['ApiKeyCreated']>()
  if (made) return <MadeKey made={made} note="The old key and this one are both valid until the old one ends." close={close} />
  const act = async () => setMade(await post('/api/v1/api-keys/{id}/rotate', { path: { id: k.id }, body: { grace_seconds: Number(grace) } }))
  return (
    <Ask title={`Rotate the key of ${k.principal}`} close={close} submit="Make the successor" act={act}>
      <p>
        A second key for the same principal with the same rights; the one that begins with <code>{begins(k)}</code> stays valid while its users change over.
      </p>
      <Choice label="The old key ends after" value={grace} set={setGrace} options={[['3600', 'an hour'], [String(day), 'a day'], [String(7 * day), '7 days'], [String(30 * day), '30 days']]} />
    </Ask>
  )
}
