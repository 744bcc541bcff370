package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"pave/api/gen"
	"pave/governance"
)

// GetReport answers a report by day.
func (h *handlers) GetReport(ctx context.Context, r gen.GetReportRequestObject) (gen.GetReportResponseObject, error) {
	report, err := h.s.deps.Reports.Report(ctx, actorFrom(ctx), governance.ReportKind(r.Kind), r.Params.From, r.Params.To)
	if err != nil {
		return nil, storeError(err)
	}
	if r.Params.Format == gen.GetReportParamsFormatCsv {
		return csvReport{report}, nil
	}
	out, err := reportDocument(report)
	return rawJSON(out), err
}

// reportDocument is a report whose rows are objects, with the members in the order of the columns. A year of many flows has
// tens of thousands of rows, so they are written without a map for each.
func reportDocument(r *governance.Report) ([]byte, error) {
	head := map[string]any{"kind": r.Kind, "columns": r.Columns}
	for name, at := range map[string]time.Time{"from": r.From, "to": r.To} {
		if !at.IsZero() {
			head[name] = utc(at)
		}
	}
	out, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(r.Columns))
	for i, column := range r.Columns {
		names[i] = strconv.Quote(column) + ":" // columns are plain words
	}
	out = append(out[:len(out)-1], `,"items":[`...)
	for i, row := range r.Rows {
		separator := byte('{')
		if i > 0 {
			out = append(out, ',')
		}
		for k, cell := range row {
			out = append(append(out, separator), names[k]...)
			separator = ','
			switch v := cell.(type) {
			case int64:
				out = strconv.AppendInt(out, v, 10)
			case float64:
				out = strconv.AppendFloat(out, v, 'f', -1, 64)
			default:
				text, err := json.Marshal(v)
				if err != nil {
					return nil, err
				}
				out = append(out, text...)
			}
		}
		out = append(out, '}')
	}
	return append(out, "]}"...), nil
}

// VisitGetReportResponse implements gen.GetReportResponseObject.
func (d rawJSON) VisitGetReportResponse(w http.ResponseWriter) error { return d.write(w) }

// csvReport is a report as CSV.
type csvReport struct{ *governance.Report }

// VisitGetReportResponse implements gen.GetReportResponseObject.
func (r csvReport) VisitGetReportResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+string(r.Kind)+`.csv"`)
	w.WriteHeader(http.StatusOK)
	return r.WriteCSV(w)
}
