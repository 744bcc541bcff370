package executor

import "strings"

// PriceOfModel looks a model up by the name that calls report, whoever provides it: the name itself, or the name
// followed by a date or build ("gpt-4o-2024-08-06"). Where providers differ, the cheapest price is taken, so that
// savings are rather understated.
func PriceOfModel(prices map[ModelKey]Price, model string) (Price, bool) {
	best, found, length := Price{}, false, 0
	for key, p := range prices {
		rest, ok := strings.CutPrefix(model, key.Model)
		dated := len(rest) > 1 && (rest[0] == '-' || rest[0] == '@') && rest[1] >= '0' && rest[1] <= '9'
		if !ok || (rest != "" && !dated) || len(key.Model) < length {
			continue
		}
		if !found || len(key.Model) > length || p.InputPerMTok+p.OutputPerMTok < best.InputPerMTok+best.OutputPerMTok {
			best, found, length = p, true, len(key.Model)
		}
	}
	return best, found
}
