import { useEffect, useRef, useState } from 'preact/hooks'
import { post } from '../api'
import type { Me } from '../app'
import { Field, Form } from '../parts/form'
import { useTitle } from '../parts/page'

export function SignIn({ done }: { done: (me: Me) => void }) {
  useTitle('Sign in')
  const [key, setKey] = useState('')
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => input.current?.focus(), [])
  return (
    <main class="alone">
      <div class="signin">
        <h1>pave</h1>
        <p class="dim">See the paths that agents keep walking, and decide which run without a model.</p>
        <Form submit="Sign in" ready={key.trim() !== ''} act={async () => done(await post('/api/v1/ui-session', { body: { key: key.trim() } }))}>
          <Field label="API key" hint={<>The first start of pave wrote an admin key to <code>admin.key</code> in its data directory; <code>pave keys create</code> makes others.</>}>
            <input ref={input} type="password" autocomplete="off" spellcheck={false} required value={key} onInput={(e) => setKey(e.currentTarget.value)} placeholder="pave_…" />
          </Field>
        </Form>
        <p class="dim">The key is exchanged for a cookie that scripts cannot read. It ends after twelve hours.</p>
      </div>
    </main>
  )
}
