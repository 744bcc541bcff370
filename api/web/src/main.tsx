import { render } from 'preact'
import './styles/base.css'
import './styles/frame.css'
import './styles/parts.css'
import './styles/flows.css'
import './styles/records.css'
import './styles/narrow.css'
import { App } from './app'
import { startTheme } from './theme'

startTheme()
render(<App />, document.getElementById('app')!)
