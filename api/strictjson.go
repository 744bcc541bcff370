package api

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/labstack/echo/v4"

	"pave/flows"
)

// strictJSON decodes request bodies: one value, known fields only. The contract's schemas have checked the form
// before; this keeps a decoder's own failure an error of the taxonomy.
type strictJSON struct{}

// Serialize writes v as JSON.
func (strictJSON) Serialize(c echo.Context, v any, _ string) error {
	return json.NewEncoder(c.Response()).Encode(v)
}

// Deserialize reads the body into v.
func (strictJSON) Deserialize(c echo.Context, v any) error {
	decoder := json.NewDecoder(c.Request().Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return flows.NewError(flows.CodeInvalid, "the body cannot be decoded: "+err.Error())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return flows.NewError(flows.CodeInvalid, "the body holds more than one JSON value")
	}
	return nil
}
