package openapi

import (
	"encoding/json"
	"fmt"

	"pave/flows"
)

// Flow is what a document says of a flow.
type Flow struct {
	Name, Version, Description string
	Input                      flows.RawSchema // nil for any object
	Output                     flows.RawSchema // nil for any object
}

// Document is an OpenAPI 3.1 document, JSON, of the flows that a server runs: one operation each, that takes the flow's
// input and answers its run. server is the base URL, "" for a relative one.
func Document(server, version string, list []Flow) (json.RawMessage, error) {
	if server == "" {
		server = "/"
	}
	anything := flows.RawSchema(`{"type":"object"}`)
	paths := object{}
	for _, f := range list {
		in, out := f.Input, f.Output
		if in == nil {
			in = anything
		}
		if out == nil {
			out = anything
		}
		paths["/api/v1/flows/"+f.Name+"/runs"] = object{"post": object{
			"operationId": f.Name, "summary": "Flow " + f.Name + " " + f.Version, "description": f.Description, "x-pave-version": f.Version,
			"requestBody": object{"required": true, "content": object{"application/json": object{"schema": object{
				"type": "object", "required": []string{"input"}, "properties": object{"input": in}}}}},
			"responses": object{
				"200": object{"description": "The run. Its output is complete when status is succeeded; handed_back says what remains in hand_back.",
					"content": object{"application/json": object{"schema": object{"type": "object", "required": []string{"id", "status"}, "properties": object{
						"id": object{"type": "string"}, "status": object{"type": "string"}, "output": out, "error_message": object{"type": "string"},
						"hand_back": object{"type": "object"}}}}}},
				"default": object{"description": "An error.", "content": object{"application/problem+json": object{"schema": object{"type": "object"}}}},
			},
		}}
	}
	out, err := json.Marshal(object{"openapi": "3.1.0",
		"info":       object{"title": "Flows of pave", "version": version, "description": "Each operation runs one reviewed flow, without a model between its steps."},
		"servers":    []any{object{"url": server}},
		"security":   []any{object{"apiKey": []string{}}},
		"components": object{"securitySchemes": object{"apiKey": object{"type": "http", "scheme": "bearer"}}},
		"paths":      paths})
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI document: %w", err)
	}
	return out, nil
}
