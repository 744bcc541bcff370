package api

import (
	"context"
	"encoding/json"
	"net/http"
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
	out, err := json.Marshal(reportDocument(report))
	return rawJSON(out), err
}

// reportDocument is a report whose rows are objects.
func reportDocument(r *governance.Report) map[string]any {
	items := make([]map[string]any, len(r.Rows))
	for i, row := range r.Rows {
		items[i] = make(map[string]any, len(row))
		for k, cell := range row {
			items[i][r.Columns[k]] = cell
		}
	}
	doc := map[string]any{"kind": r.Kind, "columns": r.Columns, "items": items}
	for name, at := range map[string]time.Time{"from": r.From, "to": r.To} {
		if !at.IsZero() {
			doc[name] = utc(at)
		}
	}
	return doc
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
