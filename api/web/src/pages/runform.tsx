// A form from the input schema of a flow. What a field cannot say is written as JSON.
import { useState } from 'preact/hooks'
import { post, type Schemas } from '../api'
import { flowOf, type SchemaNode } from '../flow'
import { Ask, Check, Choice, Text } from '../parts/form'

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
  const act = async () => {
    const input = Object.fromEntries(read.flatMap(([name, r]) => (r.value === undefined ? [] : [[name, r.value]]))) as Record<string, never>
    done(await post('/api/v1/flows/{name}/runs', { path: { name: v.name }, query: { wait: '300ms' }, body: { version: v.version, input, ...(dry ? { dry_run: true } : {}) }, key: `${key}${dry ? '-dry' : ''}` }))
  }
  return (
    <Ask title={`Run ${v.name} ${v.version}`} close={close} submit="Run" ready={faults.size === 0} act={act}>
      {fields.length === 0 && <p class="dim">It takes no input.</p>}
      {fields.map(([name, s], i) => {
        const required = schema.required?.includes(name) ?? false
        const common = { name, required, label: `${name}${required ? '' : ' (optional)'}`, hint: s.description, value: values[name] ?? '', set: (value: string) => setValues({ ...values, [name]: value }) }
        const kind = kindOf(s)
        if (s.enum) return <Choice key={name} {...common} options={[...(required ? [] : ([['', 'not given']] as [string, string][])), ...s.enum.map((o): [string, string] => [String(o), String(o)])]} />
        if (kind === 'boolean') return <Choice key={name} {...common} options={[['', 'not given'], ['true', 'true'], ['false', 'false']]} />
        const many = kind === 'object' || kind === 'array'
        return <Text key={name} {...common} first={i === 0} mono fault={faults.get(name)} rows={many ? 4 : 1} placeholder={many ? (kind === 'array' ? '[]' : '{}') : undefined} inputMode={kind === 'string' ? 'text' : 'decimal'} />
      })}
      <Check checked={dry} set={setDry}>
        dry run: resolve and check, call nothing
      </Check>
    </Ask>
  )
}
