package observer

import (
	"context"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"

	"pave/observer/planted"
)

// million is a generated log of a million calls as a mining pass reads it.
var million = sync.OnceValue(func() *calls {
	log := planted.Generate(planted.Options{Noise: planted.DefaultNoise})
	raw, err := readSequences(context.Background(), log, Options{MaxCalls: math.MaxInt})
	if err != nil {
		panic(err)
	}
	names, _ := log.ToolNames(context.Background())
	return normalise(raw, names, nil)
})

// BenchmarkCount counts a million calls, all lengths 2..16, at 0.1 % of the sessions.
func BenchmarkCount(b *testing.B) {
	log := million()
	start := cpu()
	for b.Loop() {
		count(log, 16, uint32(len(log.sessions)/1000))
	}
	b.ReportMetric((cpu()-start).Seconds()/float64(b.N), "cpu-s/op")
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
