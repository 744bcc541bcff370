package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Make a key and print its secret once."`
	List   keysListCmd   `cmd:"" help:"List keys without their secrets."`
	Rotate keysRotateCmd `cmd:"" help:"Make the successor of a key; both are valid for a while, and no others of its line."`
	Revoke keysRevokeCmd `cmd:"" help:"Revoke a key."`
}

type keysCreateCmd struct {
	Principal string        `arg:"" help:"Whose key: person:NAME or service:NAME."`
	Scopes    []string      `help:"What the key may do: ingest, read, propose, review, promote, run, work, admin." env:"PAVE_SCOPES" required:""`
	Expires   time.Duration `help:"Valid for this long, such as 720h; without it until revoked." env:"PAVE_EXPIRES"`
}

// Run makes a key. In the table form only the secret goes to standard output, so that it can be captured.
func (c *keysCreateCmd) Run(e *env) error {
	if len(c.Scopes) == 0 {
		return errUsage("--scopes is empty: give at least one of ingest, read, propose, review, promote, run, work and admin")
	}
	if c.Expires < 0 {
		return errUsage(fmt.Sprintf("--expires %s: the key would be expired; give a time to come", c.Expires))
	}
	body := gen.APIKeyCreate{Principal: c.Principal}
	for _, s := range c.Scopes {
		body.Scopes = append(body.Scopes, gen.Scope(s))
	}
	if c.Expires > 0 {
		body.ExpiresAt = time.Now().Add(c.Expires).UTC()
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.CreateAPIKeyWithResponse(e.ctx, body))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			fmt.Fprintf(e.err, "key %s for %s, shown once:\n", resp.JSON201.Key.ID, output.Clean(resp.JSON201.Key.Principal))
			_, err := fmt.Fprintln(w, resp.JSON201.Secret)
			return err
		})
	})
}

type keysListCmd struct{}

// Run lists the keys.
func (keysListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListAPIKeysWithResponse(e.ctx))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "ID", "PREFIX", "PRINCIPAL", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "REVOKED")
			for _, k := range resp.JSON200.Items {
				scopes := make([]string, len(k.Scopes))
				for i, s := range k.Scopes {
					scopes[i] = string(s)
				}
				t.Row(k.ID, k.Prefix, k.Principal, strings.Join(scopes, ","), when(k.CreatedAt), when(k.ExpiresAt), when(k.LastUsed), yesNo(k.Revoked))
			}
			return t.Flush()
		})
	})
}

type keysRotateCmd struct {
	ID    string        `arg:"" help:"The key's id."`
	Grace time.Duration `help:"How long the old key stays valid." default:"24h" env:"PAVE_GRACE"`
}

// Run rotates a key. In the table form only the secret goes to standard output, so that it can be captured.
func (c *keysRotateCmd) Run(e *env) error {
	if c.Grace < time.Second {
		return errUsage("--grace: at least a second; to end a key at once, revoke it")
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.RotateAPIKeyWithResponse(e.ctx, c.ID, gen.APIKeyRotate{GraceSeconds: int(c.Grace.Seconds())}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			fmt.Fprintf(e.err, "key %s for %s, shown once; %s stays valid for %s:\n", resp.JSON201.Key.ID, output.Clean(resp.JSON201.Key.Principal),
				output.Clean(c.ID), c.Grace)
			_, err := fmt.Fprintln(w, resp.JSON201.Secret)
			return err
		})
	})
}

type keysRevokeCmd struct {
	ID string `arg:"" help:"The key's id."`
}

// Run revokes a key.
func (c *keysRevokeCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		_, err := check(cl.RevokeAPIKeyWithResponse(e.ctx, c.ID))
		if err == nil {
			fmt.Fprintf(e.err, "revoked %s\n", output.Clean(c.ID))
		}
		return err
	})
}
