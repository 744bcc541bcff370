package secrets

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// marked lists the secrets of a text.
func marked(f *Finder, text string) (out []string) {
	for _, s := range f.Find(text) {
		out = append(out, text[s.From:s.To])
	}
	return out
}

// jwt and others are made up; none was ever valid.
const (
	jwtText = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLXNpZ25hdHVyZQ"
	pemText = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"
)

func TestFind(t *testing.T) {
	f := New(Options{})
	for text, want := range map[string][]string{
		"use sk-proj-abcDEF1234567890abcd now":                            {"sk-proj-abcDEF1234567890abcd"},
		"sk-" + "ant-api03-abcdefGHIJ1234_xyz-AA.":                        {"sk-" + "ant-api03-abcdefGHIJ1234_xyz-AA"},
		"stripe rk_live_" + "51Habcdefghij and sk_test_" + "4eC39HqLyjWD": {"rk_live_" + "51Habcdefghij", "sk_test_" + "4eC39HqLyjWD"},
		"ghp_ABCDEFGHIJ1234567890abcd,gho_ABCDEFGHIJ1234567890abcd":       {"ghp_ABCDEFGHIJ1234567890abcd", "gho_ABCDEFGHIJ1234567890abcd"},
		"github_pat_11ABCDEFG0abcdefghijkl_xyz":                           {"github_pat_11ABCDEFG0abcdefghijkl_xyz"},
		"glpat-abcdefghij1234567890":                                      {"glpat-abcdefghij1234567890"},
		"xoxb-" + "123456789012-abcdef":                                   {"xoxb-" + "123456789012-abcdef"},
		"id AKIAIOSFODNN7EXAMPLE!":                                        {"AKIAIOSFODNN7EXAMPLE"},
		"AIzaSyA1234567890abcdefghijklmnopqrstuv":                         {"AIzaSyA1234567890abcdefghijklmnopqrstuv"},
		"jwt=" + jwtText + " ok":                                          {jwtText},
		"before\n" + pemText + "\nafter":                                  {pemText},
		"-----BEGIN PRIVATE KEY-----\ncut":                                {"-----BEGIN PRIVATE KEY-----\ncut"},
		"Authorization: Bearer abcdef123456":                              {"abcdef123456"},
		"bearer mytokenwithoutanydigits":                                  {"mytokenwithoutanydigits"},
		"Authorization: Basic dXNlcjpwYXNz":                               {"dXNlcjpwYXNz"},
		"postgres://bob:s3cr%40t@db.example.com:5432/x":                   {"s3cr%40t"},
		"https://api.example.com/v1?api_key=abc123&x=1":                   {"abc123"},
		`curl -d '{"password": "hunter2"}'`:                               {"hunter2"},
		`{\"client_secret\":\"abc\"}`:                                     {"abc"},
		"DB_PASSWORD=letmein OTHER=1":                                     {"letmein"},
		"password: letmein":                                               {"letmein"},
		"AccountKey=abcd1234==;EndpointSuffix=x":                          {"abcd1234=="},
		"X-Api-Key: k9k9k9":                                               {"k9k9k9"},
		"Set-Cookie: sid=abc123; Path=/\nnext":                            {"sid=abc123; Path=/"},
		"githubToken=abc987":                                              {"abc987"},
		"card 4111 1111 1111 1111 exp":                                    {"4111 1111 1111 1111"},
		"5555-5555-5555-4444":                                             {"5555-5555-5555-4444"},
		"amex 378282246310005.":                                           {"378282246310005"},
		"é 4111111111111111":                                              {"4111111111111111"},
		`refused: {"api_key":["k1k1"]}`:                                   {"k1k1"},
		"password=sk-abcdefghijklmnop1234":                                {"sk-abcdefghijklmnop1234"},
	} {
		require.Equal(t, want, marked(f, text), text)
		require.True(t, f.Suspicious([]byte(text)), text)
	}
}

// TestNotSecrets: what looks like one and is none must stay, or mining loses values that link steps.
func TestNotSecrets(t *testing.T) {
	f := New(Options{})
	for _, text := range []string{
		"", "task-1234567890123456789", "risk-assessment-for-2026-q4-final", "sk-learn-something-very-long-name", "desk-1234567890abcdefgh",
		"the bearer of bad news", "Basic training", "basic auth is off", "https://example.com/a@b", "mailto:bob@example.com", "git@github.com:a/b.git",
		"next_page_token=abc123", "max_tokens=500", "tokens: 12", "token: unexpected end of input", "Invalid password.", "password is required", "password: ***", "secret=$SECRET",
		"password=null", "api_key={{key}}", "https://x.example/reset-password/step", "order 4111111111111112", "1234567890123456", "tracking 411111111111111111111111", "id-4111111111111111-x",
		"2026-11-30 09:00:00 2026-11-30", "+1 202 555 0100 and +1 202 555 0101", "AKIAIOSFODNN7EXAMPL", "eyJhbGciOiJIUzI1NiJ9 alone", "-----BEGIN CERTIFICATE-----\nMIIabc", "Author: 7", "cookies: 3", "secretary: bob7",
		"C::token::x1", "password:=x", "password=[redacted:secret:5f0c1a22b3d4]", "uuid 123e4567-e89b-12d3-a456-426614174000",
	} {
		require.Empty(t, marked(f, text), text)
	}
	require.Empty(t, marked(f, "bob@example.com"))
}

func TestOptions(t *testing.T) {
	f := New(Options{Names: []string{"badge_no"}, Allow: []string{"session-token"}, Emails: true})
	require.Equal(t, []string{"b77"}, marked(f, "badge_no=b77"))
	require.True(t, f.SecretName("BadgeNo"))
	require.False(t, f.SecretName("session_token"))
	require.Equal(t, []string{"bob.x+y@mail.example.com"}, marked(f, "to <bob.x+y@mail.example.com>."))
}

func TestSecretName(t *testing.T) {
	f := New(Options{})
	for _, name := range []string{"password", "Password", "user_password", "API-Key", "apiKey", "x-api-key", "accessToken", "github_token", "slackToken", "clientSecret", "Set-Cookie", "aws_secret_access_key"} {
		require.True(t, f.SecretName(name), name)
	}
	for _, name := range []string{"", "tokens", "max_tokens", "token_count", "nextPageToken", "page_token", "passwords_reset_at", "secretary", "author", "key", "id", "tokenizer", strings.Repeat("x", 200) + "password"} {
		require.False(t, f.SecretName(name), name)
	}
}

func TestIsCard(t *testing.T) {
	require.True(t, IsCard([]byte("4111111111111111")))
	for _, literal := range []string{"411111111111111", "4111111111111112", "1.11111111111111", "-4111111111111111", "9111111111111111"} {
		require.False(t, IsCard([]byte(literal)), literal)
	}
}

// FuzzFind: spans lie in the text, in order, do not overlap, and what is not suspicious holds none.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{"password=hunter2", "Bearer abcdef123456", jwtText, pemText, "4111 1111 1111 1111", "a://b:c@d", "x@y.zz", "cookie:a=b", "é-4111111111111111"} {
		f.Add(seed)
	}
	finder := New(Options{Emails: true})
	f.Fuzz(func(t *testing.T, text string) {
		at := 0
		spans := finder.Find(text)
		for _, s := range spans {
			if s.From < at || s.To <= s.From || s.To > len(text) {
				t.Fatalf("%v in %q", spans, text)
			}
			at = s.To
		}
		if len(spans) > 0 && !finder.Suspicious([]byte(text)) {
			t.Fatalf("%v in %q, which is not suspicious", spans, text)
		}
	})
}
