package bind

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
)

// FuzzEgress: an entry either parses or is refused, and never opens what it does not name.
func FuzzEgress(f *testing.F) {
	for _, seed := range []string{"127.0.0.1:80", "10.0.0.0/8:*", "[::1]:80", "[fd00::/8]:443", "localhost:9", ":", "[]:1", "a/b:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		e, err := NewEgress([]string{entry})
		if err != nil {
			assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
			return
		}
		named := strings.Contains(entry, "/") || strings.Contains(entry, "169.254.169.254") || strings.Contains(strings.ToLower(entry), "a9fe:a9fe")
		if !named {
			assert.False(t, e.permits(netip.MustParseAddrPort("169.254.169.254:80")), entry)
		}
	})
}

func TestURLsAreCheckedBeforeNamesAreResolved(t *testing.T) {
	e, err := NewEgress([]string{"127.0.0.1:9000", "10.0.0.0/8:443", "[fd00::/8]:*", "hooks.localhost:80"})
	require.NoError(t, err)
	for text, want := range map[string]string{
		"https://hooks.example.com/x": "", "http://8.8.8.8/": "", "https://[2606:4700::1111]/": "", "http://127.0.0.1:9000/x": "",
		"http://LocalHost:9000": "", "https://10.1.2.3": "", "http://[fd00::1]:81/": "", "http://hooks.localhost/": "", "http://10.example.com": "",
		"http://metadata.google.internal/": "", // a name: refused when it is connected to

		"http://169.254.169.254/latest/meta-data": "denied",
		"http://[::ffff:169.254.169.254]/":        "denied",
		"http://[fe80::1]/":                       "denied",
		"http://[fd01:ec2::254]:80/":              "",
		"http://127.0.0.1/":                       "denied",
		"http://[::1]:9000/":                      "denied",
		"http://localhost":                        "denied",
		"http://a.localhost.:9000":                "",
		"http://other.localhost":                  "denied",
		"http://0.0.0.0":                          "denied",
		"http://10.1.2.3":                         "denied",
		"http://100.100.100.200/":                 "denied",
		"http://192.168.1.1:443":                  "denied",
		"http://2852039166/":                      "number",
		"http://0xa9fea9fe":                       "number",
		"http://169.254.43518":                    "number",
		"http://0251.0376.0251.0376/":             "number",
		"http://127.1:9000":                       "number",
		"http://8.8.8.8:99999":                    "port",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		err = e.CheckURL(u)
		var denied *EgressDenied
		switch want {
		case "":
			assert.NoError(t, err, text)
		case "denied":
			assert.True(t, errors.As(err, &denied), "%s: %v", text, err)
			assert.ErrorContains(t, err, "egress.allow", text)
		default:
			assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err), text)
			assert.ErrorContains(t, err, want, text)
		}
	}
}
