package bind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"pave/flows"
)

// EgressDenied is the dialer's refusal of an address that egress.allow does not name.
type EgressDenied struct{ target string }

func (e *EgressDenied) Error() string {
	return fmt.Sprintf("egress to %s is not allowed: loopback, private and other special addresses are reached only when the setting egress.allow names them, for example %q", e.target, e.target)
}

// Egress decides which addresses tools may be reached at. Public addresses are open; everything in the
// special-purpose registries (loopback, private, link-local, metadata services) only where the list names it.
type Egress struct {
	hosts    map[string]bool // "name:port" and "name:*" in lower case
	prefixes []allowedPrefix
	guard    *ssrf.Guardian
	dialer   net.Dialer
}

type allowedPrefix struct {
	prefix netip.Prefix
	port   uint16 // 0 is any port
}

const dialTimeout = 10 * time.Second

// NewEgress reads entries "host:port", "address:port", "CIDR:port"; an IPv6 address or CIDR stands in brackets and
// a port "*" means any. A host entry trusts whatever addresses that name resolves to.
func NewEgress(entries []string) (*Egress, error) {
	e := &Egress{hosts: map[string]bool{}, guard: ssrf.New(ssrf.WithAnyPort())}
	e.dialer = net.Dialer{Timeout: dialTimeout}
	for _, entry := range entries {
		if err := e.allow(entry); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *Egress) allow(entry string) error {
	malformed := func(why string) error {
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("egress.allow entry %q %s; write host:port or CIDR:port, such as 127.0.0.1:9000 or 10.0.0.0/8:443", entry, why))
	}
	colon := strings.LastIndexByte(entry, ':')
	if colon <= 0 {
		return malformed("has no port")
	}
	host, portText := entry[:colon], entry[colon+1:]
	var port uint16
	if portText != "*" {
		n, err := strconv.ParseUint(portText, 10, 16)
		if err != nil || n == 0 {
			return malformed("has no valid port")
		}
		port = uint16(n)
	}
	if bare, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(bare, "]")
	}
	switch {
	case strings.Contains(host, "/"):
		prefix, err := netip.ParsePrefix(host)
		if err != nil {
			return malformed("is not a valid CIDR")
		}
		e.prefixes = append(e.prefixes, allowedPrefix{prefix.Masked(), port})
	default:
		if addr, err := netip.ParseAddr(host); err == nil {
			addr = addr.Unmap()
			e.prefixes = append(e.prefixes, allowedPrefix{netip.PrefixFrom(addr, addr.BitLen()), port})
			return nil
		}
		if host == "" || strings.ContainsAny(host, " @?#:*") {
			return malformed("has no valid host")
		}
		e.hosts[strings.ToLower(host)+":"+portText] = true
	}
	return nil
}

// Transport is an http.Transport that connects through the list: no proxy of the environment, which would bypass it,
// and bounded headers. The caller closes its idle connections.
func (e *Egress) Transport() *http.Transport {
	return &http.Transport{
		DialContext:            e.dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// NoRedirects is http.Client.CheckRedirect for tools: a redirect is an answer, never followed.
func NoRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// dial is http.Transport.DialContext.
func (e *Egress) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	host = strings.ToLower(host)
	if e.hosts[host+":"+port] || e.hosts[host+":*"] {
		return e.dialer.DialContext(ctx, network, addr)
	}
	guarded := e.dialer
	// The check runs on the resolved address just before connect, so a name cannot be rebound between check and use.
	guarded.Control = func(_, resolved string, _ syscall.RawConn) error {
		if to, err := netip.ParseAddrPort(resolved); err == nil && e.permits(to) {
			return nil
		}
		return &EgressDenied{target: addr}
	}
	conn, err := guarded.DialContext(ctx, network, addr)
	var denied *EgressDenied
	if errors.As(err, &denied) {
		return nil, denied
	}
	return conn, err
}

// CheckURL refuses a URL that cannot be connected to, as far as it can be told before names are resolved: one whose host
// is an address, or this machine's name for itself. Other names are checked whenever they are connected to.
func (e *Egress) CheckURL(u *url.URL) error {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if e.hosts[host+":"+port] || e.hosts[host+":*"] {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("port %q is no port", port))
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	addr, err := netip.ParseAddr(host)
	switch {
	case last == "localhost":
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case err != nil && isNumber(last): // resolvers take 2130706433, 127.1 and 0x7f000001 for an address
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("host %q: write an IPv4 address as four decimal numbers", host))
	case err != nil:
		return nil
	}
	if e.permits(netip.AddrPortFrom(addr, uint16(n))) {
		return nil
	}
	return &EgressDenied{target: net.JoinHostPort(host, port)}
}

// isNumber reports a label that can only be a part of an IPv4 address.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// permits reports whether an address is public or on the list.
func (e *Egress) permits(to netip.AddrPort) bool {
	addr := to.Addr().Unmap().WithZone("")
	for _, allowed := range e.prefixes {
		if allowed.prefix.Contains(addr) && (allowed.port == 0 || allowed.port == to.Port()) {
			return true
		}
	}
	return e.guard.SafeAddrPort(to) == nil
}
