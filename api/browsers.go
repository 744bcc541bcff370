package api

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"pave/api/gen"
	"pave/governance"
)

// sessionCookie carries the id of a browser session. Its prefix-less name serves plain HTTP on loopback, too.
const sessionCookie = "pave_session"

// Bounds of browser sessions.
const (
	browserSessionLife = 12 * time.Hour
	maxBrowserSessions = 10_000
)

// browsers are the sessions of signed-in browsers: the key that each was made with, by the hash of its cookie. They
// live in memory, so that no key is ever written down for them. The zero value is ready; safe for concurrent use.
type browsers struct {
	mu       sync.Mutex
	sessions map[[sha256.Size]byte]browserSession
}

type browserSession struct {
	secret string
	ends   time.Time
}

// open makes a session of a key and returns its id. Beyond the bound the session that ends first gives way.
func (b *browsers) open(secret string, now time.Time) string {
	id := rand.Text() + rand.Text()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions == nil {
		b.sessions = make(map[[sha256.Size]byte]browserSession)
	}
	if len(b.sessions) >= maxBrowserSessions {
		b.makeRoom(now)
	}
	b.sessions[sha256.Sum256([]byte(id))] = browserSession{secret: secret, ends: now.Add(browserSessionLife)}
	return id
}

func (b *browsers) makeRoom(now time.Time) {
	var first [sha256.Size]byte
	var ends time.Time
	for key, session := range b.sessions {
		if now.After(session.ends) {
			delete(b.sessions, key)
		} else if ends.IsZero() || session.ends.Before(ends) {
			first, ends = key, session.ends
		}
	}
	if len(b.sessions) >= maxBrowserSessions {
		delete(b.sessions, first)
	}
}

// secret is the key behind the request's cookie.
func (b *browsers) secret(r *http.Request, now time.Time) (string, bool) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return "", false
	}
	key := sha256.Sum256([]byte(cookie.Value))
	b.mu.Lock()
	defer b.mu.Unlock()
	session, ok := b.sessions[key]
	if ok && now.After(session.ends) {
		delete(b.sessions, key)
		return "", false
	}
	return session.secret, ok
}

func (b *browsers) close(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, sha256.Sum256([]byte(id)))
}

// cookie is the session cookie of a request's answer; life 0 removes it.
func cookieFor(r *http.Request, id string, life time.Duration) *http.Cookie {
	c := &http.Cookie{Name: sessionCookie, Value: id, Path: "/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode, MaxAge: int(life.Seconds())}
	if life == 0 {
		c.MaxAge = -1
	}
	return c
}

// signIn exchanges a key for a browser session.
func (s *Server) signIn(c echo.Context) error {
	if err := checkBody(s.operation(c), c.Request()); err != nil {
		return err
	}
	var in gen.SignIn
	if err := c.Bind(&in); err != nil {
		return err
	}
	actor, err := s.deps.Keys.Authenticate(c.Request().Context(), in.Key)
	if err != nil {
		return err
	}
	c.SetCookie(cookieFor(c.Request(), s.browsers.open(in.Key, time.Now()), browserSessionLife))
	return c.JSON(http.StatusOK, meOf(actor, gen.MeAuthSession))
}

// signOut ends the browser session.
func (s *Server) signOut(c echo.Context) error {
	if cookie, err := c.Cookie(sessionCookie); err == nil {
		s.browsers.close(cookie.Value)
	}
	c.SetCookie(cookieFor(c.Request(), "", 0))
	return c.NoContent(http.StatusNoContent)
}

// me says who the caller is. The operation is public in the contract because no one scope is needed for it.
func (s *Server) me(c echo.Context) error {
	r := c.Request()
	actor, err := s.authenticate(r)
	if err != nil {
		return err
	}
	if actor, err = actor.As(r.Header.Get(HeaderActAs)); err != nil {
		return err
	}
	auth := gen.MeAuthKey
	if r.Header.Get(echo.HeaderAuthorization) == "" {
		auth = gen.MeAuthNone
		if _, signedIn := s.browsers.secret(r, time.Now()); signedIn {
			auth = gen.MeAuthSession
		}
	}
	return c.JSON(http.StatusOK, meOf(actor, auth))
}

func meOf(actor governance.Actor, auth gen.MeAuth) gen.Me {
	return gen.Me{Principal: actor.Principal, Auth: auth,
		Scopes: list(actor.Scopes, func(s governance.Scope) gen.Scope { return gen.Scope(s) })}
}
