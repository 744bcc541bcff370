import { useState } from 'preact/hooks'
import { put, send, useData, type Schemas } from '../../api'
import { useMe } from '../../app'
import { Check, Form, Names, Num } from '../../parts/form'
import { Safety } from '../../parts/marks'
import { Card } from '../../parts/page'
import { Show } from '../../parts/states'

type Policy = Schemas['Policy']

const levels = ['none', 'read', 'write', 'external', 'destructive']

export function PolicyView() {
  const policy = useData('policy', async (signal) => {
    const r = await send('GET', '/api/v1/policies', { signal })
    return { policy: (await r.json()) as Policy, tag: (r.headers.get('ETag') ?? '"0"').replaceAll('"', '') }
  })
  return <Show of={policy}>{({ policy: p, tag }) => <PolicyForm key={tag} p={p} tag={tag} saved={policy.reload} />}</Show>
}

function PolicyForm({ p, tag, saved }: { p: Policy; tag: string; saved: () => void }) {
  const me = useMe()
  const [next, setNext] = useState(p)
  const admin = me.may('admin')
  const change = (part: Partial<Policy>) => setNext({ ...next, ...part })
  return (
    <Form
      submit="Save"
      act={() => put('/api/v1/policies', { body: next, ifMatch: tag }).then(saved)}
      ready={admin && JSON.stringify(next) !== JSON.stringify(p)}
      note={!admin && 'Your key has no scope "admin".'}
    >
      <Card title="Approvals by the effects of a flow's tools">
        <fieldset disabled={!admin}>
          <div class="levels">
            {levels.map((l) => (
              <Num key={l} label={l === 'read' ? 'read-only' : l} value={next.approvals[l]} set={(n) => change({ approvals: { ...next.approvals, [l]: n } })} min={1} max={10} />
            ))}
          </div>
          <p class="dim">
            Effects that nobody declared count as <Safety of="external" />. The author of a draft never approves it.
          </p>
          <Check checked={next.solo} set={(solo) => change({ solo })}>
            solo mode: one person runs this installation and may approve their own proposals; every such approval is marked
          </Check>
        </fieldset>
      </Card>
      <Card title="Before a promotion">
        <fieldset disabled={!admin}>
          <div class="levels">
            <Num label="Exact replay, share" hint="0 asks for none" value={next.min_replay_exact} set={(min_replay_exact) => change({ min_replay_exact })} min={0} max={1} />
          </div>
          <div class="levels wide">
            <Names label="One approver of" hint="principals, by comma; empty: anybody" value={next.required_reviewers} set={(required_reviewers) => change({ required_reviewers })} />
            <Names label="Promotes" hint="principals, by comma; empty: the scope decides" value={next.promoters} set={(promoters) => change({ promoters })} />
          </div>
          <Check checked={next.require_shadow} set={(require_shadow) => change({ require_shadow })}>
            live predictions (shadow) must have passed
          </Check>
        </fieldset>
      </Card>
      <Card title="A version goes to review by itself when">
        <fieldset disabled={!admin}>
          <div class="levels">
            <Num label="Failures exceed, share" hint="0 turns it off" value={next.max_failure_rate} set={(max_failure_rate) => change({ max_failure_rate })} min={0} max={1} />
            <Num label="… of the last runs" hint="at least so many" value={next.min_runs} set={(min_runs) => change({ min_runs })} min={0} />
            <Num label="Conformance is below" hint="share of the last 50 walks; 0 turns it off" value={next.min_conformance} set={(min_conformance) => change({ min_conformance })} min={0} max={1} />
            <Num label="Nobody runs it for days" hint="0 turns it off" value={next.unused_days} set={(unused_days) => change({ unused_days })} min={0} />
          </div>
        </fieldset>
      </Card>
      <Card title="Open proposals, at most">
        <fieldset disabled={!admin}>
          <div class="levels">
            <Num label="From recordings" value={next.max_pending} set={(max_pending) => change({ max_pending })} min={0} />
            <Num label="From tool schemas" value={next.max_pending_analyzer} set={(max_pending_analyzer) => change({ max_pending_analyzer })} min={0} />
          </div>
        </fieldset>
      </Card>
    </Form>
  )
}
