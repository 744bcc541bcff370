//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// ids of objects that pages are opened with.
type ids struct{ proposal, flow, run, session, tool string }

func (s *service) ids() ids {
	s.t.Helper()
	var proposals struct {
		Items []struct {
			ID    string
			State string
			Tools []string
		}
	}
	s.call("GET", "/api/v1/proposals?limit=100", "", nil, &proposals)
	var runs struct{ Items []struct{ ID, Flow string } }
	s.call("GET", "/api/v1/runs?limit=1", "", nil, &runs)
	var sessions struct{ Items []struct{ ID string } }
	s.call("GET", "/api/v1/sessions?limit=40", "", nil, &sessions)
	require.NotEmpty(s.t, proposals.Items)
	require.NotEmpty(s.t, runs.Items)
	require.NotEmpty(s.t, sessions.Items)
	return ids{proposal: proposals.Items[1].ID, flow: runs.Items[0].Flow, run: runs.Items[0].ID, session: "ticket-0018", tool: "get_order"}
}

type place struct{ name, path string }

func (i ids) places() []place {
	return []place{
		{"overview", "/"}, {"proposals", "/proposals?state=all"}, {"review", "/proposals/" + i.proposal}, {"flows", "/flows"}, {"flow", "/flows/" + i.flow},
		{"runs", "/runs"}, {"run", "/runs/" + i.run + "?step=2"}, {"sessions", "/sessions"}, {"session", "/sessions/" + i.session}, {"patterns", "/patterns"},
		{"tools", "/tools"}, {"tool", "/tools/" + i.tool}, {"audit", "/audit"}, {"keys", "/settings/keys"}, {"policy", "/settings/policy"}, {"webhooks", "/settings/webhooks"}, {"service", "/settings/service"},
	}
}

// Every page at three widths in both themes: nothing is wider than the window, and nothing jumps once it is shown. With
// PAVE_SHOTS=dir the pictures are kept there.
func TestEveryPageFitsEveryWidth(t *testing.T) {
	s := serve(t, true)
	p := s.open(s.admin)
	dir := os.Getenv("PAVE_SHOTS")
	for _, at := range s.ids().places() {
		p.do(chromedp.EmulateViewport(1440, 900))
		p.visit(at.path)
		p.settled()
		for _, width := range []int64{1440, 1024, 768} {
			p.do(chromedp.EmulateViewport(width, 900))
			// Nothing is wider than the window, once charts have measured themselves.
			p.until(`[document.documentElement, document.querySelector('main')].every((e) => e.scrollWidth <= e.clientWidth)`)
			if dir == "" {
				continue
			}
			for _, theme := range []string{"light", "dark"} {
				eval[any](p, fmt.Sprintf(`document.documentElement.dataset.theme = %q`, theme))
				time.Sleep(100 * time.Millisecond) // charts measure themselves
				require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", at.name, width, theme)), p.picture(), 0o600))
			}
		}
	}
}
