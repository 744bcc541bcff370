// What a page shows when it has nothing to show: loading, empty, refused, failed.
import type { ComponentChildren } from 'preact'
import type { ApiError, Loaded } from '../api'

export function Loading({ rows = 6 }: { rows?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <span key={i} class="bone" />
      ))}
    </div>
  )
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  )
}

/** An error in plain words: what happened, what to do, and the request's id for whoever reads the log. */
export function Problem({ error, retry }: { error: ApiError; retry?: () => void }) {
  const { problem, status } = error
  const title = status === 403 ? 'You may not see or do this' : status === 404 ? 'Not found' : status === 0 ? 'No answer' : status === 412 ? 'It has changed meanwhile' : problem.title
  return (
    <div class={status === 403 ? 'problem refused' : 'problem'} role="alert">
      <h2>{title}</h2>
      <p>{problem.detail || problem.title}</p>
      {problem.errors && problem.errors.length > 0 && (
        <ul>
          {problem.errors.map((e, i) => (
            <li key={i}>
              {e.pointer && <code>{e.pointer}</code>} {e.detail}
            </li>
          ))}
        </ul>
      )}
      <p class="dim">
        <code>{problem.code}</code>
        {problem.instance && (
          <>
            {' '}
            · request <code>{problem.instance}</code>
          </>
        )}
      </p>
      {retry && status !== 403 && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** Renders data once it is there; old data stays while newer is read. */
export function Show<T>({ of, children, rows }: { of: Loaded<T>; children: (data: T) => ComponentChildren; rows?: number }) {
  if (of.data !== undefined)
    return (
      <>
        {of.error && <Problem error={of.error} retry={of.reload} />}
        {children(of.data)}
      </>
    )
  if (of.error) return <Problem error={of.error} retry={of.reload} />
  return <Loading rows={rows} />
}
