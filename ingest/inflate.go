package ingest

import (
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"pave/flows"
)

// ratioFree is how much may be inflated before the ratio limit counts: small bodies of repeated text compress well.
const ratioFree = 1 << 20

// Inflate returns the decompressed body. Encoding is the Content-Encoding: "" or identity, gzip, zstd. Limits Body,
// Inflated and Ratio are enforced while reading: then Read fails with a *flows.Error of CodeTooLarge. A broken
// stream is CodeInvalid, another encoding CodeUnsupportedMedia. Memory is bounded by the decoders' windows (8 MiB).
// Close releases the decoder and leaves body open.
func Inflate(body io.Reader, encoding string, limits Limits) (io.ReadCloser, error) {
	limits = limits.WithDefaults()
	in := &counted{r: body, max: limits.Body, what: "the request body"}
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return io.NopCloser(in), nil
	case "gzip":
		return &inflated{in: in, limits: limits, open: openGzip}, nil
	case "zstd":
		return &inflated{in: in, limits: limits, open: openZstd}, nil
	}
	return nil, flows.NewError(flows.CodeUnsupportedMedia,
		fmt.Sprintf("content encoding %.40q is not supported; send gzip, zstd or none", encoding))
}

func openGzip(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }

func openZstd(r io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// counted fails when more than max bytes are read.
type counted struct {
	r    io.Reader
	n    int64
	max  int64
	what string
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.n > c.max {
		return 0, flows.NewError(flows.CodeTooLarge, fmt.Sprintf("%s is larger than %d bytes; send smaller batches", c.what, c.max))
	}
	return n, err
}

// inflated decompresses lazily, so that errors come from Read only.
type inflated struct {
	in     *counted
	limits Limits
	open   func(io.Reader) (io.ReadCloser, error)
	dec    io.ReadCloser
	n      int64
	err    error
}

func (d *inflated) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if d.dec == nil {
		dec, err := d.open(d.in)
		if err != nil {
			d.err = d.broken(err)
			return 0, d.err
		}
		d.dec = dec
	}
	n, err := d.dec.Read(p)
	d.n += int64(n)
	switch {
	case d.n > d.limits.Inflated:
		d.err = flows.NewError(flows.CodeTooLarge,
			fmt.Sprintf("the body inflates to more than %d bytes; send smaller batches", d.limits.Inflated))
		return 0, d.err
	case d.n > ratioFree && d.n > d.in.n*d.limits.Ratio:
		d.err = flows.NewError(flows.CodeTooLarge,
			fmt.Sprintf("the body inflates to more than %d times its size; send it less compressed", d.limits.Ratio))
		return 0, d.err
	case err != nil && err != io.EOF:
		d.err = d.broken(err)
		return n, d.err
	}
	return n, err
}

// broken keeps errors of the source and names those of the decoder.
func (d *inflated) broken(err error) error {
	if flows.CodeOf(err) != flows.CodeInternal {
		return err
	}
	return &flows.Error{Code: flows.CodeInvalid, Message: "the body cannot be decompressed; check Content-Encoding", Err: err}
}

func (d *inflated) Close() error {
	if d.dec == nil {
		return nil
	}
	return d.dec.Close()
}
