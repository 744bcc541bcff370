// A form from the input schema of a flow. What a field cannot say is written as JSON.
import { useState } from 'preact/hooks'
import { post, type Schemas } from '../api'
import { flowOf, type SchemaNode } from '../flow'
import { Dialog, Field, useAction } from '../parts/page'
import { Problem } from '../parts/states'

type Values = Record<string, string>

const kindOf = (s: SchemaNode) => (Array.isArray(s.type) ? s.type.find((t) => t !== 'null') : s.type) ?? 'string'

/** The value of a field by its schema; undefined leaves it out. */
export function fieldValue(schema: SchemaNode, text: string): { value?: unknown; fault?: string } {
  if (text === '') return {}
  switch (kindOf(schema)) {
    case 'integer':
    case 'number': {
      const n = Number(text)
      if (!Number.isFinite(n) || (kindOf(schema) === 'integer' && !Number.isInteger(n))) return { fault: `must be ${kindOf(schema) === 'integer' ? 'a whole number' : 'a number'}` }
      return { value: n }
    }
    case 'boolean':
      return { value: text === 'true' }
    case 'array':
    case 'object':
      try {
        return { value: JSON.parse(text) as unknown }
      } catch {
        return { fault: 'must be JSON' }
      }
    default:
      return { value: text }
  }
}

export function RunForm({ v, close, done }: { v: Schemas['FlowVersion']; close: () => void; done: (run: Schemas['Run']) => void }) {
  const schema = flowOf(v.flow).input_schema ?? {}
  const fields = Object.entries(schema.properties ?? {})
  const [values, setValues] = useState<Values>(() => Object.fromEntries(fields.map(([name, s]) => [name, s.default === undefined ? '' : typeof s.default === 'string' ? s.default : JSON.stringify(s.default)])))
  const [dry, setDry] = useState(false)
  const [key] = useState(() => crypto.randomUUID())
  const read = fields.map(([name, s]) => [name, fieldValue(s, values[name] ?? '')] as const)
  const faults = new Map(read.flatMap(([name, r]) => (r.fault ? [[name, r.fault] as const] : [])))
  const act = useAction(async () => {
    const input = Object.fromEntries(read.flatMap(([name, r]) => (r.value === undefined ? [] : [[name, r.value]]))) as Record<string, never>
    done(await post('/api/v1/flows/{name}/runs', { path: { name: v.name }, query: { wait: '300ms' }, body: { version: v.version, input, ...(dry ? { dry_run: true } : {}) }, key: `${key}${dry ? '-dry' : ''}` }))
  })
  const set = (name: string) => (e: { currentTarget: { value: string } }) => setValues({ ...values, [name]: e.currentTarget.value })
  return (
    <Dialog title={`Run ${v.name} ${v.version}`} close={close}>
      <form onSubmit={(e) => (e.preventDefault(), void act.run())}>
        {fields.length === 0 && <p class="dim">It takes no input.</p>}
        {fields.map(([name, s], i) => {
          const required = schema.required?.includes(name) ?? false
          const common = { name, required, value: values[name] ?? '', onInput: set(name), ...(i === 0 ? { 'data-first': true } : {}) }
          return (
            <Field key={name} label={`${name}${required ? '' : ' (optional)'}`} hint={faults.get(name) ?? s.description}>
              {s.enum ? (
                <select {...common} onChange={set(name)}>
                  {!required && <option value="" />}
                  {s.enum.map((o) => (
                    <option key={String(o)} value={String(o)}>
                      {String(o)}
                    </option>
                  ))}
                </select>
              ) : kindOf(s) === 'boolean' ? (
                <select {...common} onChange={set(name)}>
                  <option value="">not given</option>
                  <option value="true">true</option>
                  <option value="false">false</option>
                </select>
              ) : kindOf(s) === 'object' || kindOf(s) === 'array' ? (
                <textarea {...common} rows={4} class="mono" placeholder={kindOf(s) === 'array' ? '[]' : '{}'} spellcheck={false} />
              ) : (
                <input {...common} type="text" inputMode={kindOf(s) === 'string' ? 'text' : 'decimal'} class="mono" autocomplete="off" />
              )}
            </Field>
          )
        })}
        <label class="check">
          <input type="checkbox" checked={dry} onChange={(e) => setDry(e.currentTarget.checked)} /> dry run: resolve and check, call nothing
        </label>
        {act.error && <Problem error={act.error} />}
        <div class="actions">
          <button type="submit" class="primary" disabled={act.busy || faults.size > 0}>
            {act.busy ? 'Running…' : 'Run'}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  )
}
