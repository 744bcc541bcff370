package otlp

import (
	"go.opentelemetry.io/collector/pdata/plog"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// logged is what log records tell of what one model call was given, a message a record, in their order.
type logged struct {
	model   ingest.Event // header for events of the call
	history *conversation
	user    string // of the last message, when it is the user's
	hasUser bool
}

// logMessages reads a record of a model call's messages: one message in the body, as older conventions have it, or all
// messages as attributes. It appends the calls that the answer asks for.
func (m *mapper) logMessages(lr plog.LogRecord, name string, e *ingest.Event) {
	model := *e
	model.SpanID, model.Source, model.Start = e.ParentSpanID, "otlp/genai-log", logTime(&m.r, lr)
	switch name {
	case "gen_ai.choice":
		m.told(&model, &modelCall{asked: readMessages(m.r.value(lr.Body()))})
	case detailsEvent:
		input := m.r.json(kInputMessages)
		m.told(&model, &modelCall{asked: readMessages(m.r.json(kOutputMessages)), history: readMessages(input)})
		if text, isUser := lastUser(input); isUser {
			m.loggedUser(&model, text)
		}
	case "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message":
		if model.SpanID != "" {
			m.loggedMessage(&model, name, m.r.value(lr.Body()))
		}
	}
}

// loggedMessage notes a message that a model call was given.
func (m *mapper) loggedMessage(model *ingest.Event, name string, body []byte) {
	key := [2]string{model.TraceID, model.SpanID}
	at, known := m.logged[key]
	if !known {
		if m.logged == nil {
			m.logged = make(map[[2]string]int)
		}
		at = len(m.calls)
		m.logged[key] = at
		m.calls = append(m.calls, logged{model: *model, history: readMessages(nil)})
	}
	call := &m.calls[at]
	if call.hasUser = name == "gen_ai.user.message"; call.hasUser {
		content := firstOf(rawjson.Get(body, "content"), rawjson.Get(body, "parts"))
		call.user, call.hasUser = contentText(content)
		call.hasUser = call.hasUser || content == nil // content is not captured; the boundary is
		return
	}
	call.history.visit(body, map[string]string{"gen_ai.assistant.message": "assistant", "gen_ai.tool.message": "tool"}[name], 0)
}

// loggedMessages appends what the messages of the model calls tell: the results of tools, and the user's message that a call
// answers.
func (m *mapper) loggedMessages() {
	for i := range m.calls {
		call := &m.calls[i]
		m.told(&call.model, &modelCall{history: call.history})
		if call.hasUser {
			m.loggedUser(&call.model, call.user)
		}
	}
	m.logged, m.calls = nil, nil
}

// loggedUser appends the user's message that a model call answers; the span of the call may tell it too.
func (m *mapper) loggedUser(model *ingest.Event, text string) {
	if model.TraceID == "" || model.SpanID == "" {
		return
	}
	e := *model
	e.Kind, e.User, e.ParentSpanID, e.SpanID = ingest.KindUserMessage, &ingest.UserMessage{Text: text}, model.SpanID, ""
	e.Identity = ingest.DeriveIdentity("user", model.TraceID, model.SpanID)
	_ = m.append(e)
}
