package baseline

import (
	"regexp"
	"strings"
	"time"
)

// isoForm takes an ISO 8601 timestamp apart: date, time of day, fraction, offset.
var isoForm = regexp.MustCompile(`^(\d{4}-?\d{2}-?\d{2})(?:[\s\S](\d{2}(?::?\d{2}(?::?\d{2}(?:[.,](\d+))?)?)?)(Z|[+-]\d{2}(?::?\d{2})?)?)?$`)

// isoTime writes an ISO 8601 timestamp as RFC 3339 with microseconds where there are any, and without an offset where
// the text has none. It is "" for what is no timestamp.
func isoTime(text string) string {
	m := isoForm.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	digits := strings.NewReplacer("-", "", ":", "")
	day := digits.Replace(m[1])
	clock, fraction, _ := strings.Cut(strings.ReplaceAll(m[2], ",", "."), ".")
	clock = (digits.Replace(clock) + "000000")[:6]
	fraction = (fraction + "000000")[:6]
	zone := m[4]
	if zone == "Z" {
		zone = "+0000"
	}
	if zone != "" {
		zone = zone[:1] + (digits.Replace(zone[1:]) + "00")[:4]
	}
	layout := "20060102150405.000000"
	if zone != "" {
		layout += "-0700"
	}
	at, err := time.Parse(layout, day+clock+"."+fraction+zone)
	if err != nil {
		return ""
	}
	out := at.Format("2006-01-02T15:04:05")
	if at.Nanosecond() != 0 {
		out += at.Format(".000000")
	}
	if zone != "" {
		out += at.Format("Z07:00")
	}
	return out
}
