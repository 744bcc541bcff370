// The client of the public API. Paths, parameters and answers are typed by the contract.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { components, paths } from './contract'

export type Schemas = components['schemas']

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>
type PathsOf<M extends Method> = { [P in keyof paths]: [NonNullable<paths[P][M]>] extends [never] ? never : P }[keyof paths]
type Params<O> = O extends { parameters: infer X } ? X : never
type Query<O> = Params<O> extends { query?: infer Q } ? NonNullable<Q> : never
type Part<O> = Params<O> extends { path: infer X } ? X : never
type Json<R> = R extends { content: { 'application/json': infer T } } ? T : never
type Answer<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201 | 202)]> : never
type Body<O> = O extends { requestBody?: infer B } ? Json<NonNullable<B>> : never

export interface Input<O> {
  path?: Part<O>
  query?: Partial<Query<O>>
  body?: Body<O>
  ifMatch?: string | number
  key?: string
  signal?: AbortSignal
}

/** An error that the API answered, or the lack of an answer (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Schemas['Problem'],
  ) {
    super(problem.detail || problem.title)
  }
}

const signedOut = new Set<() => void>()
/** Calls fn whenever the API answers that nobody is signed in. */
export const onSignedOut = (fn: () => void) => (signedOut.add(fn), () => void signedOut.delete(fn))

export function address(path: string, parts?: object, query?: object): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String((parts as Record<string, unknown>)?.[name])))
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined && value !== '') search.set(name, String(value))
  return filled + (search.size ? `?${search}` : '')
}

export async function send(method: string, url: string, init: { body?: unknown; type?: string; ifMatch?: string | number; key?: string; signal?: AbortSignal } = {}) {
  const headers: Record<string, string> = { Accept: 'application/json' }
  if (init.body !== undefined) headers['Content-Type'] = init.type ?? 'application/json'
  if (init.ifMatch !== undefined) headers['If-Match'] = `"${init.ifMatch}"`
  if (init.key) headers['Idempotency-Key'] = init.key
  const body = init.body === undefined || init.type ? (init.body as string | undefined) : JSON.stringify(init.body)
  let answer: Response
  try {
    answer = await fetch(url, { method, headers, body, signal: init.signal, credentials: 'same-origin' })
  } catch (e) {
    if (init.signal?.aborted) throw e
    const problem = { type: '', title: 'No answer', status: 0, code: 'no_answer', detail: 'The service does not answer. It may be stopping, or the connection is gone.' }
    throw new ApiError(0, problem)
  }
  if (answer.ok) return answer
  const problem = await answer.json().catch(() => ({ type: '', title: answer.statusText, status: answer.status, code: 'unknown' }))
  if (answer.status === 401) signedOut.forEach((fn) => fn())
  throw new ApiError(answer.status, problem)
}

async function call<T>(method: Method, path: string, input: Input<unknown> = {}): Promise<T> {
  const { path: parts, query, ...rest } = input as { path?: object; query?: object }
  const answer = await send(method.toUpperCase(), address(path, parts, query), rest)
  return answer.status === 204 ? (undefined as T) : ((await answer.json()) as T)
}

export const get = <P extends PathsOf<'get'>>(path: P, input?: Input<Operation<P, 'get'>>) => call<Answer<Operation<P, 'get'>>>('get', path, input as Input<unknown>)
export const post = <P extends PathsOf<'post'>>(path: P, input?: Input<Operation<P, 'post'>>) => call<Answer<Operation<P, 'post'>>>('post', path, input as Input<unknown>)
export const put = <P extends PathsOf<'put'>>(path: P, input?: Input<Operation<P, 'put'>>) => call<Answer<Operation<P, 'put'>>>('put', path, input as Input<unknown>)
export const patch = <P extends PathsOf<'patch'>>(path: P, input?: Input<Operation<P, 'patch'>>) => call<Answer<Operation<P, 'patch'>>>('patch', path, input as Input<unknown>)
export const del = <P extends PathsOf<'delete'>>(path: P, input?: Input<Operation<P, 'delete'>>) => call<Answer<Operation<P, 'delete'>>>('delete', path, input as Input<unknown>)

export interface Loaded<T> {
  data?: T
  error?: ApiError
  loading: boolean
  reload: () => void
}

// What was shown last under a key is shown again at once while it is read anew, so that going back does not blink.
const kept = new Map<string, unknown>()
const maxKept = 200

function keep(key: string, value: unknown) {
  kept.delete(key)
  kept.set(key, value)
  if (kept.size > maxKept) kept.delete(kept.keys().next().value as string)
}

/** Forgets everything that was read, such as at a sign-out. */
export const forget = () => kept.clear()

/** Reads data for a key and again whenever the key changes; a null key reads nothing. */
export function useData<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>, everyMs = 0): Loaded<T> {
  const [state, set] = useState<{ key: string | null; data?: T; error?: ApiError; loading: boolean }>({ key: null, loading: true })
  const [turn, setTurn] = useState(0)
  const loader = useRef(load)
  loader.current = load
  useEffect(() => {
    if (key === null) return
    const stop = new AbortController()
    set((s) => (s.key === key ? { ...s, loading: true } : { key, data: kept.get(key) as T | undefined, loading: true }))
    loader.current(stop.signal).then(
      (data) => {
        if (stop.signal.aborted) return
        keep(key, data)
        set({ key, data, loading: false })
      },
      (error: unknown) => {
        if (stop.signal.aborted) return
        if (!(error instanceof ApiError)) throw error
        set((s) => ({ key, data: error.status === 0 ? s.data : undefined, error, loading: false }))
      },
    )
    const timer = everyMs > 0 ? setTimeout(() => document.hidden || setTurn((n) => n + 1), everyMs) : undefined
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [key, turn, everyMs])
  const reload = useCallback(() => setTurn((n) => n + 1), [])
  if (key === null) return { loading: false, reload }
  const own = state.key === key ? state : { data: kept.get(key) as T | undefined, loading: true, error: undefined }
  return { data: own.data, error: own.error, loading: own.loading, reload }
}

export interface Page<T> {
  items: T[]
  next_cursor?: string
}

export interface Pages<T> extends Loaded<T[]> {
  more?: () => void
}

/** Reads a list page by page; `more` reads the next one and is absent after the last. */
export function usePages<T>(key: string | null, load: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>, everyMs = 0): Pages<T> {
  const first = useData<Page<T>>(key, (signal) => load(undefined, signal), everyMs)
  const [rest, setRest] = useState<{ of?: Page<T>; items: T[]; next?: string; error?: ApiError }>({ items: [] })
  const busy = useRef<AbortController | null>(null)
  const loader = useRef(load)
  loader.current = load
  useEffect(() => {
    busy.current?.abort()
    busy.current = null
  }, [first.data])
  const mine = rest.of === first.data ? rest : { items: [] as T[], next: undefined, error: undefined }
  const next = mine.items.length > 0 ? mine.next : first.data?.next_cursor
  const more = useCallback(() => {
    if (!next || busy.current) return
    const stop = (busy.current = new AbortController())
    const of = first.data
    loader.current(next, stop.signal).then(
      (page) => {
        if (stop.signal.aborted) return
        busy.current = null
        setRest((r) => ({ of, items: [...(r.of === of ? r.items : []), ...page.items], next: page.next_cursor }))
      },
      (error: unknown) => {
        if (stop.signal.aborted) return
        busy.current = null
        if (error instanceof ApiError) setRest((r) => ({ ...r, of, error }))
      },
    )
  }, [next, first.data])
  const data = first.data && (mine.items.length > 0 ? [...first.data.items, ...mine.items] : first.data.items)
  return { data, error: first.error ?? mine.error, loading: first.loading, reload: first.reload, more: next ? more : undefined }
}
