package main

import (
	"fmt"
	"reflect"
	"time"

	"github.com/alecthomas/kong"
)

// timeFlags reads the times of flags: RFC 3339, or a day, which is its beginning in UTC.
func timeFlags() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("time", &text); err != nil {
			return err
		}
		for _, layout := range []string{time.RFC3339, time.DateOnly} {
			if t, err := time.Parse(layout, text); err == nil {
				target.Set(reflect.ValueOf(t))
				return nil
			}
		}
		return fmt.Errorf("%q is no time; write 2026-11-30T08:00:00Z, or 2026-11-30 for the beginning of a day in UTC", text)
	}))
}
