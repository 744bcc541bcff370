// The frame: navigation, who is signed in, and the page of the address.
import { createContext, type ComponentChildren, type ComponentType } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'
import { ApiError, forget, get, onSignedOut, send, useData, type Schemas } from './api'
import { Search } from './parts/search'
import { Empty, Problem } from './parts/states'
import { useKeys } from './parts/page'
import { BASE, Link, match, navigate, useLocation } from './router'
import { theme, toggleTheme } from './theme'
import { AuditPage } from './pages/audit'
import { FlowPage } from './pages/flow'
import { FlowsPage } from './pages/flows'
import { OverviewPage } from './pages/overview'
import { PatternsPage } from './pages/patterns'
import { ProposalsPage } from './pages/proposals'
import { ReviewPage } from './pages/review'
import { RunPage } from './pages/run'
import { RunsPage } from './pages/runs'
import { SessionPage } from './pages/session'
import { SessionsPage } from './pages/sessions'
import { SettingsPage } from './pages/settings/settings'
import { SignIn } from './pages/signin'
import { ToolPage } from './pages/tool'
import { ToolsPage } from './pages/tools'

export type Me = Schemas['Me']
const Who = createContext<Me | null>(null)

export function useMe() {
  const me = useContext(Who)
  if (!me) throw new Error('a page is shown to somebody')
  return { ...me, may: (scope: Schemas['Scope']) => me.scopes.includes(scope) || me.scopes.includes('admin') }
}

// Pages with the scope that they need; settings ask for what each of their sections needs.
const routes: [pattern: string, page: ComponentType<{ args: string[] }>, scope?: Schemas['Scope']][] = [
  ['/', OverviewPage, 'read'],
  ['/proposals', ProposalsPage, 'read'], ['/proposals/:id', ReviewPage, 'read'],
  ['/flows', FlowsPage, 'read'], ['/flows/:name', FlowPage, 'read'], ['/flows/:name/:version', FlowPage, 'read'],
  ['/runs', RunsPage, 'read'], ['/runs/:id', RunPage, 'read'],
  ['/sessions', SessionsPage, 'read'], ['/sessions/:id', SessionPage, 'read'],
  ['/patterns', PatternsPage, 'read'], ['/patterns/:key', PatternsPage, 'read'],
  ['/tools', ToolsPage, 'read'], ['/tools/:name', ToolPage, 'read'],
  ['/audit', AuditPage, 'admin'],
  ['/settings', SettingsPage], ['/settings/:section', SettingsPage],
]

const places: [string, string][] = [
  ['/', 'Overview'], ['/proposals', 'Proposals'], ['/flows', 'Flows'], ['/runs', 'Runs'], ['/sessions', 'Sessions'],
  ['/patterns', 'Patterns'], ['/tools', 'Tools'], ['/audit', 'Audit'], ['/settings', 'Settings'],
]

/** What only somebody with a scope may see; everybody else is told once what is missing. */
export function Needs({ scope, children }: { scope?: Schemas['Scope']; children: ComponentChildren }) {
  const me = useMe()
  if (!scope || me.may(scope)) return <>{children}</>
  const detail = `This needs the scope "${scope}"; the key of ${me.principal} has ${me.scopes.join(', ')}. Somebody with the scope "admin" can make another key.`
  return <Problem error={new ApiError(403, { type: 'urn:pave:problem:forbidden', title: 'Forbidden', status: 403, code: 'forbidden', detail })} />
}

export function App() {
  const [turn, setTurn] = useState(0)
  const [me, setMe] = useState<Me | 'nobody' | ApiError | null>(null)
  useEffect(() => onSignedOut(() => setMe('nobody')), [])
  useEffect(() => {
    get('/api/v1/me').then(setMe, (e: unknown) => {
      if (e instanceof ApiError && e.status !== 401) setMe(e)
    })
  }, [turn])
  if (me === null) return null
  if (me instanceof ApiError)
    return (
      <main class="alone">
        <Problem error={me} retry={() => setTurn(turn + 1)} />
      </main>
    )
  if (me === 'nobody') return <SignIn done={setMe} />
  return (
    <Who.Provider value={me}>
      <Frame signOut={() => void send('DELETE', '/api/v1/ui-session').then(() => (forget(), setMe('nobody')))} />
    </Who.Provider>
  )
}

function Frame({ signOut }: { signOut: () => void }) {
  const { path } = useLocation()
  const me = useMe()
  const [search, setSearch] = useState(false)
  const [dark, setDark] = useState(theme() === 'dark')
  useEffect(() => {
    const on = (e: KeyboardEvent) => {
      if ((e.metaKey || e.ctrlKey) && e.key.toLowerCase() === 'k') {
        e.preventDefault()
        setSearch(true)
      }
    }
    addEventListener('keydown', on)
    return () => removeEventListener('keydown', on)
  }, [])
  useKeys({ '/': () => setSearch(true) })
  const waiting = useData(me.may('read') ? 'queue-size' : null, (signal) => get('/api/v1/proposals', { query: { state: 'open', limit: 100 }, signal }), 60_000)
  const open = waiting.data?.items.length ?? 0
  const found = routes.map(([pattern, page, scope]) => ({ page, scope, args: match(pattern, path) })).find((r) => r.args)
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <Link to="/" class="brand" aria-label="pave, overview">
          <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
            <path d="M1 2h8v3.500H1zM10.500 2H15v3.500h-4.500zM1 6.750h4.500v3.500H1zM7 6.750h8v3.500H7zM1 11.500h8V15H1zM10.500 11.500H15V15h-4.500z" />
          </svg>
          pave
        </Link>
        <nav aria-label="Pages">
          {places.map(([at, name]) => {
            const here = at === '/' ? path === '/' : path === at || path.startsWith(at + '/')
            return (
              <Link key={at} to={at} aria-current={here ? 'page' : undefined}>
                {name}
                {at === '/proposals' && open > 0 && (
                  <span class="badge" aria-label={`${open} wait`}>
                    {waiting.data?.next_cursor ? `${open}+` : open}
                  </span>
                )}
              </Link>
            )
          })}
        </nav>
        <div class="top-tools">
          <button type="button" class="search-open" onClick={() => setSearch(true)}>
            Search <kbd>⌘K</kbd>
          </button>
          <button type="button" class="icon" aria-label={dark ? 'Light theme' : 'Dark theme'} title={dark ? 'Light theme' : 'Dark theme'} onClick={() => (toggleTheme(), setDark(!dark))}>
            <span aria-hidden="true">{dark ? '☀' : '☾'}</span>
          </button>
          <details class="who">
            <summary title={me.principal}>{me.principal.replace(/^\w+:/, '')}</summary>
            <div class="who-card">
              <strong class="mono">{me.principal}</strong>
              <span class="dim">may {me.scopes.join(', ')}</span>
              {me.auth === 'none' && <span class="state warn">▲ this service asks for no key (loopback only)</span>}
              {me.auth === 'session' && (
                <button type="button" onClick={signOut}>
                  Sign out
                </button>
              )}
            </div>
          </details>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {found?.args ? (
          <Needs scope={found.scope}>
            <found.page args={found.args} key={found.page.name} />
          </Needs>
        ) : (
          <Empty title="There is no page at this address">
            <p>
              <code>{BASE + path}</code> is none of the pages above.{' '}
              <button type="button" class="link" onClick={() => navigate('/')}>
                Go to the overview
              </button>
            </p>
          </Empty>
        )}
      </main>
      {search && <Search close={() => setSearch(false)} places={places} />}
    </>
  )
}
