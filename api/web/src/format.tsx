// Numbers with units and times that read the same everywhere.
import type { Schemas } from './api'

const plain = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 3, notation: 'compact' })
const fine = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })

export const count = (n: number) => (Math.abs(n) < 100_000 ? (Number.isInteger(n) ? plain.format(n) : fine.format(n)) : short.format(n))
export const percent = (share: number) => `${fine.format(Math.abs(share) < 0.0005 ? 0 : Math.round(share * 1000) / 10)} %`
export const money = (usd: number) =>
  usd === 0 ? '$0' : Math.abs(usd) >= 1000 ? `$${short.format(usd)}` : Math.abs(usd) >= 0.1 ? `$${usd.toFixed(2)}` : `$${usd.toPrecision(2).replace(/\.?0+$/, '')}`

export function duration(ms: number): string {
  if (ms < 1) return `${fine.format(ms)} ms`
  if (ms < 1000) return `${plain.format(ms)} ms`
  const s = ms / 1000
  if (s < 100) return `${fine.format(s)} s`
  if (s < 6000) return `${fine.format(s / 60)} min`
  if (s < 172_800) return `${fine.format(s / 3600)} h`
  return `${fine.format(s / 86_400)} d`
}

/** A mean with its interval, such as "4.0 (3.8 to 4.2)". */
export function interval(i: Pick<Schemas['Interval'], 'mean' | 'low' | 'high'>, show: (n: number) => string): string {
  return Math.abs(i.high - i.low) < 1e-9 ? show(i.mean) : `${show(i.mean)} (${show(i.low)} to ${show(i.high)})`
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' })
const dayYear = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric' })

/** A local time; the hover shows it in UTC. */
export function Time({ at, date = true }: { at?: string; date?: boolean }) {
  if (!at) return <span class="dim">not known</span>
  const t = new Date(at)
  const d = t.getFullYear() === new Date().getFullYear() ? day.format(t) : dayYear.format(t)
  return (
    <time dateTime={at} title={`${t.toISOString().replace('T', ' ').replace(/\.000Z$/, 'Z').replace('Z', ' UTC')}`}>
      {date ? `${d}, ` : ''}
      {clock.format(t)}
    </time>
  )
}

/** How long ago, with the exact time on hover. */
export function Ago({ at }: { at?: string }) {
  if (!at) return <span class="dim">never</span>
  const ms = Date.now() - Date.parse(at)
  const text = ms < 60_000 ? 'just now' : `${duration(ms).replace(/\.\d+/, '')} ago`
  return (
    <time dateTime={at} title={new Date(at).toISOString().replace('T', ' ').replace('Z', ' UTC')}>
      {text}
    </time>
  )
}

export const plural = (n: number, one: string, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`
export const words = (name: string) => name.replaceAll('_', ' ')
