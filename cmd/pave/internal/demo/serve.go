package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"pave/cmd/pave/internal/demo/desk"
)

// customers of the demo's world; the last freshCustomers of them write no ticket while agents work, so that
// promoted flows meet tickets nobody has seen.
const (
	customers      = 400
	freshCustomers = 80
)

// ServeDesk serves the support desk on listen until ctx ends or stdin closes, and prints its ready line on out.
func ServeDesk(ctx context.Context, listen string, seed uint64, in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: desk.NewServer(desk.NewWorld(seed, customers)), ReadHeaderTimeout: 5 * time.Second}
	ctx, cancel := untilClosed(ctx, in)
	defer cancel()
	go func() {
		<-ctx.Done()
		srv.Close()
	}()
	fmt.Fprintf(out, "desk: serving on http://%s\n", l.Addr())
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
