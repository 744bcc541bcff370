package openapi

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
)

const shop = `
openapi: 3.0.3
info: {title: shop, version: "1"}
servers: [{url: "https://shop.example/v2/"}]
paths:
  /orders/{order_id}:
    parameters: [{name: order_id, in: path, required: true, schema: {type: string}}]
    get:
      operationId: getOrder
      summary: One order.
      parameters:
        - {name: expand, in: query, schema: {type: boolean}, description: With items.}
        - {name: X-Trace, in: header, schema: {type: string}}
      responses: {"200": {content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}}
    delete:
      parameters: [{name: reason, in: query, required: true, schema: {type: string}}]
      responses: {"204": {description: gone}}
  /orders:
    get:
      operationId: "list orders"
      responses: {"200": {content: {application/json: {schema: {type: array, items: {$ref: "#/components/schemas/Order"}}}}}}
    post:
      operationId: createOrder
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
      responses: {"201": {description: made}}
  /same:
    put: {operationId: getOrder, responses: {}}
  /upload:
    post: {operationId: upload, requestBody: {content: {application/octet-stream: {}}}, responses: {}}
  /keyed:
    get: {operationId: keyed, parameters: [{name: X-Key, in: header, required: true, schema: {type: string}}], responses: {}}
components:
  schemas:
    Order:
      type: object
      required: [id]
      properties:
        id: {type: string, example: a}
        note: {type: string, nullable: true}
        total: {type: number, minimum: 0, exclusiveMinimum: true}
        parent: {$ref: "#/components/schemas/Order"}
`

func TestOperationsBecomeTools(t *testing.T) {
	tools, skipped, err := Tools([]byte(shop), Options{Prefix: "shop_"})
	require.NoError(t, err)
	by := map[string]*flows.Tool{}
	for _, tool := range tools {
		by[tool.Name] = tool
	}
	require.Len(t, by, 4)
	get := by["shop_getOrder"]
	assert.Equal(t, flows.Binding{Kind: "http", Method: "GET", URL: "https://shop.example/v2/orders/{order_id}"}, *get.Binding)
	assert.Equal(t, flows.EffectRead, flows.Effects(get.Safety))
	assert.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["order_id"],"properties":{"order_id":{"type":"string"},"expand":{"type":"boolean","description":"With items."}}}`, string(get.InputSchema))
	var out struct {
		Properties map[string]any `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(get.OutputSchema, &out))
	assert.Equal(t, map[string]any{"type": "string"}, out.Properties["id"])
	assert.Equal(t, map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "null"}}}, out.Properties["note"])
	assert.Equal(t, map[string]any{"type": "number", "minimum": 0.0, "exclusiveMinimum": 0.0}, out.Properties["total"])
	remove := by["shop_delete_orders_order_id"]
	assert.Equal(t, "https://shop.example/v2/orders/{order_id}?reason={reason}", remove.Binding.URL)
	assert.Nil(t, remove.Safety, "of other methods nothing is known")
	assert.Contains(t, string(by["shop_list_orders"].OutputSchema), `"required":["result"]`)
	assert.Equal(t, "json", by["shop_createOrder"].Binding.Body)
	reasons := map[string]string{}
	for _, s := range skipped {
		reasons[s.Operation] = s.Reason
	}
	assert.Len(t, reasons, 3)
	assert.Contains(t, reasons["PUT /same"], "another operation")
	assert.Contains(t, reasons["POST /upload"], "neither JSON nor a form")
	assert.Contains(t, reasons["GET /keyed"], "X-Key")
	for _, tool := range tools { // what was made can be kept in a tool file
		raw, err := flows.EncodeTool(tool, flows.FormatYAML)
		require.NoError(t, err)
		_, err = flows.ParseTools(raw)
		require.NoError(t, err, string(raw))
	}
}

func TestDocumentsThatAreRefused(t *testing.T) {
	for _, doc := range []string{"", "[1]", "swagger: '2.0'", "openapi: 3.1.0\nservers: [{url: /relative}]", "a: &a [*a]", "openapi: 3.1.0\nx: &x 1\ny: *x"} {
		_, _, err := Tools([]byte(doc), Options{})
		assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err), doc)
	}
}

// What pave writes of its flows, pave and others can read as tools.
func TestFlowsAreADocumentThatCanBeImported(t *testing.T) {
	doc, err := Document("https://pave.example", "1", []Flow{{Name: "refund", Version: "1.0.0", Description: "Refunds.", Input: flows.RawSchema(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)}})
	require.NoError(t, err)
	tools, skipped, err := Tools(doc, Options{})
	require.NoError(t, err)
	assert.Empty(t, skipped)
	require.Len(t, tools, 1)
	assert.Equal(t, "refund", tools[0].Name)
	assert.Equal(t, "https://pave.example/api/v1/flows/refund/runs", tools[0].Binding.URL)
	assert.Contains(t, string(tools[0].InputSchema), `"input":{"properties":{"id":{"type":"string"}},"required":["id"],"type":"object"}`)
}

func FuzzOpenAPI(f *testing.F) {
	f.Add([]byte(shop))
	f.Add([]byte(`{"openapi":"3.1.0","servers":[{"url":"http://h"}],"paths":{"/a":{"$ref":"#/paths/~1a"}}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		tools, _, err := Tools(doc, Options{BaseURL: "http://h"})
		if err != nil {
			assert.NotEmpty(t, flows.CodeOf(err))
			return
		}
		for _, tool := range tools {
			assert.NotEmpty(t, tool.Name)
		}
	})
}
