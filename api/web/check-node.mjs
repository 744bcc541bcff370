// The built files are committed and compared, so one Node builds them: the one of .nvmrc.
import { readFileSync } from 'node:fs'

const want = readFileSync(new URL('.nvmrc', import.meta.url), 'utf8').trim()
const have = process.versions.node
if (have !== want) {
  console.error(`the web UI is built with Node ${want} (api/web/.nvmrc), and this is Node ${have}: install it, for instance with "nvm install" in api/web. Building pave itself needs no Node.`)
  process.exit(1)
}
