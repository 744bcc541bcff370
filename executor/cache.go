package executor

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"pave/flows/value"
)

// StepCache keeps the outputs of cacheable tools. Outputs are immutable and may be shared. Implementations are safe
// for concurrent use.
type StepCache interface {
	Get(key string) (outputs map[string]any, size int, ok bool)
	Put(key string, outputs map[string]any, size int) // size of the outputs in bytes
}

// cacheKey names a call by scope, tool, schema hash and the SHA-256 of its validated inputs; "" when its tool is not
// cacheable or the run takes nothing from the cache. A tool is cacheable when it says so, else when its contract does
// and it changes nothing.
func (v *visit) cacheKey(inputs map[string]any) string {
	r := v.r
	if r.e.cache == nil || v.tool == nil || !v.tool.cacheable || r.in.DryRun || r.replay != nil {
		return ""
	}
	sum := sha256.Sum256(value.Canonical(inputs))
	return r.in.CacheScope + "\x00" + v.tool.tool.Name + "@" + v.tool.hash + "@" + hex.EncodeToString(sum[:])
}

// CacheLimits bound a memory cache; zero means the default in parentheses.
type CacheLimits struct {
	Entries int           // 10,000
	Bytes   int           // of outputs (64 MiB)
	TTL     time.Duration // 10 minutes
}

// MemoryCache is a StepCache in memory that forgets what was used least recently. It is safe for concurrent use.
type MemoryCache struct {
	limits CacheLimits
	now    func() time.Time

	mu    sync.Mutex
	bytes int
	order *list.List // of *cacheEntry, most recently used first
	byKey map[string]*list.Element
}

type cacheEntry struct {
	key     string
	outputs map[string]any
	size    int // with the key
	expires time.Time
}

var _ StepCache = (*MemoryCache)(nil)

// NewMemoryCache builds a MemoryCache with an injected clock.
func NewMemoryCache(limits CacheLimits, now func() time.Time) *MemoryCache {
	if limits.Entries <= 0 {
		limits.Entries = 10_000
	}
	if limits.Bytes <= 0 {
		limits.Bytes = 64 << 20
	}
	if limits.TTL <= 0 {
		limits.TTL = 10 * time.Minute
	}
	return &MemoryCache{limits: limits, now: now, order: list.New(), byKey: map[string]*list.Element{}}
}

// Get implements StepCache.
func (c *MemoryCache) Get(key string) (map[string]any, int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil, 0, false
	}
	entry := e.Value.(*cacheEntry)
	if !c.now().Before(entry.expires) {
		c.drop(e)
		return nil, 0, false
	}
	c.order.MoveToFront(e)
	return entry.outputs, entry.size - len(key), true
}

// Put implements StepCache. Outputs larger than the whole cache are not kept.
func (c *MemoryCache) Put(key string, outputs map[string]any, size int) {
	size += len(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.drop(e)
	}
	if size > c.limits.Bytes {
		return
	}
	c.byKey[key] = c.order.PushFront(&cacheEntry{key, outputs, size, c.now().Add(c.limits.TTL)})
	c.bytes += size
	for c.order.Len() > c.limits.Entries || c.bytes > c.limits.Bytes {
		c.drop(c.order.Back())
	}
}

// Len is the number of entries, expired ones included.
func (c *MemoryCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}

func (c *MemoryCache) drop(e *list.Element) {
	entry := c.order.Remove(e).(*cacheEntry)
	delete(c.byKey, entry.key)
	c.bytes -= entry.size
}
