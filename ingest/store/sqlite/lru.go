package sqlite

import "container/list"

// lru keeps the values used last, up to a total cost.
type lru[K comparable, V any] struct {
	limit int
	gone  func(V) // told of values that had to go; nil for none
	cost  int
	items map[K]*list.Element
	order list.List // of *lruItem[K, V], used last first
}

type lruItem[K comparable, V any] struct {
	key   K
	value V
	cost  int
}

func newLRU[K comparable, V any](limit int) *lru[K, V] {
	return &lru[K, V]{limit: limit, items: map[K]*list.Element{}}
}

func (c *lru[K, V]) get(key K) (V, bool) {
	at, ok := c.items[key]
	if !ok {
		var none V
		return none, false
	}
	c.order.MoveToFront(at)
	return at.Value.(*lruItem[K, V]).value, true
}

// put adds a key that is not there; the value just added stays whatever it costs.
func (c *lru[K, V]) put(key K, value V, cost int) {
	c.items[key] = c.order.PushFront(&lruItem[K, V]{key, value, cost})
	c.cost += cost
	for c.cost > c.limit && c.order.Len() > 1 {
		last := c.order.Remove(c.order.Back()).(*lruItem[K, V])
		delete(c.items, last.key)
		c.cost -= last.cost
		if c.gone != nil {
			c.gone(last.value)
		}
	}
}

func (c *lru[K, V]) clear() {
	if c.gone != nil {
		for at := c.order.Front(); at != nil; at = at.Next() {
			c.gone(at.Value.(*lruItem[K, V]).value)
		}
	}
	clear(c.items)
	c.order.Init()
	c.cost = 0
}
