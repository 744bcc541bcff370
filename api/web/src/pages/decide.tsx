// The dialog of a decision: approve, reject or request changes, of one proposal or of several.
import { useState } from 'preact/hooks'
import { post, type Schemas } from '../api'
import { plural } from '../format'
import { Ask, Choice, Text } from '../parts/form'
import { Safety } from '../parts/marks'

type Row = Schemas['ProposalSummary']
type Verdict = Schemas['Verdict']

const verbs: Record<Verdict, string> = { approve: 'Approve', reject: 'Reject', request_changes: 'Request changes' }

interface Props {
  verdict: Verdict
  rows: Row[]
  undeclared?: string[] // tools of the one proposal whose effects nobody declared
  close: () => void
  done: () => void
}

/** Asks for the reason and decides; of several proposals each is decided by itself, and refusals are listed. */
export function Decide({ verdict, rows, undeclared = [], close, done }: Props) {
  const [comment, setComment] = useState('')
  const [feedback, setFeedback] = useState<Schemas['Feedback']>('mapping_wrong')
  const [refused, setRefused] = useState<string[]>([])
  const [effects, setEffects] = useState<Record<string, string>>({})
  const [known, setKnown] = useState('')
  const declared = Object.entries(effects).flatMap(([tool, side_effects]) => (side_effects ? [{ tool, side_effects: side_effects as Schemas['SideEffects'], reason: known }] : []))
  const act = async () => {
    const failed: string[] = []
    if (rows.length > 1 && verdict === 'reject') {
      const report = await post('/api/v1/proposals/bulk-reject', { body: { reason: comment, items: rows.map((p) => ({ id: p.id, digest: p.digest })) } })
      for (const o of report.items) if (!o.rejected) failed.push(`${rows.find((p) => p.id === o.id)?.flow_name ?? o.id}: ${o.detail ?? o.code}`)
    } else
      for (const p of rows) {
        const body = { verdict, digest: p.digest, ...(comment ? { comment } : {}), ...(verdict === 'request_changes' ? { feedback } : {}), ...(declared.length ? { safety: declared } : {}) }
        const input = { path: { id: p.id }, body, ifMatch: p.revision }
        if (rows.length === 1) await post('/api/v1/proposals/{id}/reviews', input)
        else await post('/api/v1/proposals/{id}/reviews', input).catch((e: Error) => failed.push(`${p.flow_name}: ${e.message}`))
      }
    setRefused(failed)
    if (failed.length === 0) done()
  }
  const must = verdict !== 'approve'
  const risky = rows.filter((p) => p.safety !== 'none' && p.safety !== 'read')
  const title = `${verbs[verdict]} ${rows.length === 1 ? rows[0]!.flow_name : plural(rows.length, 'proposal')}`
  if (refused.length > 0)
    return (
      <Ask title={title} close={done} submit="Go on" act={async () => done()}>
        <div class="problem" role="alert">
          <h2>Not all were decided</h2>
          <ul>
            {refused.map((r) => (
              <li key={r}>{r}</li>
            ))}
          </ul>
        </div>
      </Ask>
    )
  return (
    <Ask title={title} close={close} submit={verbs[verdict]} danger={verdict === 'reject'} ready={(!must || comment.trim() !== '') && (declared.length === 0 || known.trim() !== '')} act={act} note={<kbd>⌘⏎</kbd>}>
      {rows.length > 1 && (
        <ul class="plain">
          {rows.map((p) => (
            <li key={p.id}>
              {p.flow_name} <Safety of={p.safety} />
            </li>
          ))}
        </ul>
      )}
      {verdict === 'approve' && risky.length > 0 && <p class="state warn">▲ {risky.length === 1 && rows.length === 1 ? 'It changes something outside of pave' : `${risky.length} of them change something outside of pave`}.</p>}
      {verdict === 'approve' && undeclared.length > 0 && (
        <fieldset>
          <legend>What these tools do, which nobody declared (optional)</legend>
          {undeclared.map((tool) => (
            <Choice key={tool} label={tool} value={effects[tool] ?? ''} set={(v) => setEffects({ ...effects, [tool]: v })} options={[['', 'not known: counts as external'], ['none', 'computes only'], ['read', 'reads, changes nothing'], ['write', 'changes data of its own system'], ['external', 'acts outside'], ['destructive', 'deletes or cannot be undone']]} />
          ))}
          {declared.length > 0 && <Text label="How you know" hint="Kept in the audit log; it holds for every flow with the tool" required value={known} set={setKnown} />}
        </fieldset>
      )}
      {verdict === 'request_changes' && (
        <Choice
          label="What is wrong" value={feedback} set={(f) => setFeedback(f as Schemas['Feedback'])}
          options={[['mapping_wrong', 'a mapping is wrong'], ['schema_too_loose', 'a schema is too loose'], ['not_a_flow', 'this is not a flow'], ['other', 'something else']]}
        />
      )}
      <Text label={must ? 'Why' : 'Comment (optional)'} hint={verdict === 'reject' ? 'It does not come back until its evidence changes materially.' : undefined} rows={4} first required={must} value={comment} set={setComment} />
    </Ask>
  )
}
