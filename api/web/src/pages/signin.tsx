import { useEffect, useRef, useState } from 'preact/hooks'
import { post } from '../api'
import type { Me } from '../app'
import { Problem } from '../parts/states'
import { Field, useAction, useTitle } from '../parts/page'

export function SignIn({ done }: { done: (me: Me) => void }) {
  useTitle('Sign in')
  const [key, setKey] = useState('')
  const input = useRef<HTMLInputElement>(null)
  const enter = useAction(async () => done(await post('/api/v1/ui-session', { body: { key: key.trim() } })))
  useEffect(() => input.current?.focus(), [])
  return (
    <main class="alone">
      <form
        class="signin"
        onSubmit={(e) => {
          e.preventDefault()
          void enter.run()
        }}
      >
        <h1>pave</h1>
        <p class="dim">See the paths that agents keep walking, and decide which run without a model.</p>
        <Field label="API key" hint="The first start of pave wrote an admin key to admin.key in its data directory; `pave keys create` makes others.">
          <input ref={input} type="password" autocomplete="off" spellcheck={false} required value={key} onInput={(e) => setKey(e.currentTarget.value)} placeholder="pave_…" />
        </Field>
        <button type="submit" class="primary" disabled={enter.busy || !key.trim()}>
          Sign in
        </button>
        {enter.error && <Problem error={enter.error} />}
        <p class="dim">The key is exchanged for a cookie that scripts cannot read. It ends after twelve hours.</p>
      </form>
    </main>
  )
}
