// Charts in plain SVG. Each has its numbers as text for whoever cannot see it.
import { useEffect, useRef, useState } from 'preact/hooks'

export function Spark({ values, label, width = 96, height = 22 }: { values: number[]; label: string; width?: number; height?: number }) {
  const top = Math.max(1e-9, ...values)
  const w = width / Math.max(1, values.length)
  return (
    <svg class="spark" width={width} height={height} role="img" aria-label={label}>
      <title>{label}</title>
      {values.map((v, i) => {
        const h = v <= 0 ? 0 : Math.max(1.5, (v / top) * (height - 2))
        return <rect key={i} x={i * w + 0.5} y={height - h} width={Math.max(1, w - 1)} height={h} />
      })}
    </svg>
  )
}

export interface Series {
  name: string
  values: number[]
}

/** Stacked bars over time. */
export function Bars({ series, labels, unit, height = 180, show }: { series: Series[]; labels: string[]; unit: string; height?: number; show: (n: number) => string }) {
  const ref = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  const [at, setAt] = useState<number | null>(null)
  useEffect(() => {
    const el = ref.current
    if (!el) return
    const watch = new ResizeObserver(() => setWidth(el.clientWidth))
    watch.observe(el)
    return () => watch.disconnect()
  }, [])
  const left = 44
  const bottom = 20
  const sums = labels.map((_, i) => series.reduce((s, one) => s + (one.values[i] ?? 0), 0))
  const top = niceTop(Math.max(1, ...sums))
  const plot = height - bottom - 6
  const step = Math.max(0, (width - left) / Math.max(1, labels.length))
  const y = (v: number) => 6 + plot - (v / top) * plot
  const every = Math.max(1, Math.ceil(labels.length / Math.max(1, (width - left) / 64)))
  return (
    <div class="chart" ref={ref}>
      <svg width={width} height={height} role="img" aria-label={`${unit}: ${labels.map((l, i) => `${l} ${show(sums[i] ?? 0)}`).join(', ')}`} onMouseLeave={() => setAt(null)}>
        {[0, 0.5, 1].map((f) => (
          <g key={f} class="grid">
            <line x1={left} x2={width} y1={y(top * f)} y2={y(top * f)} />
            <text x={left - 6} y={y(top * f) + 4} text-anchor="end">
              {show(top * f)}
            </text>
          </g>
        ))}
        {labels.map((l, i) => {
          let base = 0
          return (
            <g key={i} onMouseEnter={() => setAt(i)} class={at === i ? 'bar on' : 'bar'}>
              <rect class="bar-room" x={left + i * step} y={0} width={step} height={height - bottom} />
              {series.map((one, k) => {
                const v = one.values[i] ?? 0
                if (v <= 0) return null
                const h = Math.max(0, y(base) - y(base + v))
                base += v
                return <rect key={one.name} class={`c${k % 6}`} x={left + i * step + step * 0.14} y={y(base)} width={Math.max(1, step * 0.72)} height={h} />
              })}
              {i % every === 0 && (
                <text x={left + (i + 0.5) * step} y={height - 5} text-anchor="middle">
                  {l}
                </text>
              )}
            </g>
          )
        })}
      </svg>
      <div class="legend">
        {at === null ? (
          series.map((one, k) => (
            <span key={one.name}>
              <i class={`c${k % 6}`} aria-hidden="true" /> {one.name}
            </span>
          ))
        ) : (
          <>
            <strong>{labels[at]}</strong>
            {series.map((one, k) => (
              <span key={one.name}>
                <i class={`c${k % 6}`} aria-hidden="true" /> {one.name} {show(one.values[at] ?? 0)}
              </span>
            ))}
            <span>
              all {show(sums[at] ?? 0)} {unit}
            </span>
          </>
        )}
      </div>
    </div>
  )
}

function niceTop(v: number): number {
  const unit = 10 ** Math.floor(Math.log10(v))
  return [1, 2, 4, 5, 10].map((f) => f * unit).find((f) => f >= v) ?? v
}
