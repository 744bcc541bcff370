package runs

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// VaultKeySize is the size of a Vault's key in bytes.
const VaultKeySize = 32

// Vault encrypts what must be kept with its true values: where runs can go on. Texts are sealed with AES-256-GCM under
// a random nonce and bound to the run that they belong to. It is immutable and safe for concurrent use.
type Vault struct {
	aead   cipher.AEAD
	macKey []byte
}

// errSealed says that a text was not sealed by this vault for this run.
var errSealed = errors.New("the checkpoint cannot be read with the key of this installation")

// NewVault builds a Vault from a key of VaultKeySize random bytes, which encrypts and, apart from that, authenticates.
func NewVault(key []byte) (*Vault, error) {
	if len(key) != VaultKeySize {
		return nil, fmt.Errorf("a checkpoint key has %d bytes, this one has %d", VaultKeySize, len(key))
	}
	derive := func(purpose string) ([]byte, error) { return hkdf.Key(sha256.New, key, nil, "pave "+purpose, 32) }
	sealing, err := derive("checkpoints")
	if err != nil {
		return nil, fmt.Errorf("checkpoint key: %w", err)
	}
	block, err := aes.NewCipher(sealing)
	if err != nil {
		return nil, fmt.Errorf("checkpoint key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("checkpoint key: %w", err)
	}
	mac, err := derive("approvals")
	if err != nil {
		return nil, fmt.Errorf("checkpoint key: %w", err)
	}
	return &Vault{aead: aead, macKey: mac}, nil
}

// newProcessVault has a key that nobody else knows and that ends with the process.
func newProcessVault() *Vault {
	key := make([]byte, VaultKeySize)
	_, _ = rand.Read(key) // crypto/rand never fails
	v, err := NewVault(key)
	if err != nil {
		panic(err) // the key has the right size
	}
	return v
}

func bindTo(tenant, runID string) []byte { return []byte(tenant + "\x00" + runID) }

// seal encrypts plain for one run.
func (v *Vault) seal(tenant, runID string, plain []byte) []byte {
	nonce := make([]byte, v.aead.NonceSize(), v.aead.NonceSize()+len(plain)+v.aead.Overhead())
	_, _ = rand.Read(nonce) // crypto/rand never fails
	return v.aead.Seal(nonce, nonce, plain, bindTo(tenant, runID))
}

// open decrypts what was sealed for a run.
func (v *Vault) open(tenant, runID string, sealed []byte) ([]byte, error) {
	n := v.aead.NonceSize()
	if len(sealed) < n {
		return nil, errSealed
	}
	plain, err := v.aead.Open(nil, sealed[:n], sealed[n:], bindTo(tenant, runID))
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}

// mac names values without giving them away.
func (v *Vault) mac(text []byte) []byte {
	h := hmac.New(sha256.New, v.macKey)
	h.Write(text)
	return h.Sum(nil)
}
