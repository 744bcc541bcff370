package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"pave/ingest"
	"pave/ingest/otlp"
	"pave/ingest/secrets"
	"pave/ingest/store/sqlite"
	"pave/ingest/transcript"
)

// StageCPU is the CPU of one call by what is done with it, in microseconds. The stages are measured one by one, in one
// goroutine and without a connection, on the bodies that the sender sends: they add up to less than the whole path, which has
// HTTP and the operating system too. Decoding to write is with SQLite.
type StageCPU struct {
	Decode float64 `json:"decode"` // the body to records; of JSON and files, to events
	Map    float64 `json:"map"`    // OTLP records to events; 0 where decoding gives events
	Redact float64 `json:"redact"` // policy, secrets, limits, identities, and the recorder's queue
	Write  float64 `json:"write"`  // the committed transactions
}

// keeper is an event store that keeps what it is given in memory.
type keeper struct{ batches [][]ingest.Event }

func (k *keeper) Append(_ context.Context, _ string, events []ingest.Event) error {
	k.batches = append(k.batches, events)
	return nil
}

// stages measures a path on so many calls.
func stages(ctx context.Context, path, dir string, calls int) (s StageCPU, err error) {
	requests := max(1, calls/callsPerRequest)
	load := Load{Path: path, Calls: callsPerRequest}
	bodies, err := load.bodies(rand.New(rand.NewPCG(7, 7)), requests)
	if err != nil {
		return s, err
	}
	total := float64(requests * callsPerRequest)
	stage := func(to *float64, f func() error) error {
		used, _, err := measure(f)
		*to = used.Seconds() * 1e6 / total
		return err
	}
	events, err := decodeStages(ctx, path, dir, bodies, &s, stage)
	if err != nil {
		return s, err
	}
	kept := &keeper{}
	recorder := ingest.NewRecorder(kept, ingest.RecorderOptions{Redactor: ingest.NewRedactor([]byte("bench"), secrets.Options{}), Limits: ingest.Limits{Linger: time.Nanosecond}})
	err = stage(&s.Redact, func() error {
		for _, batch := range events {
			if _, err := recorder.Record(ctx, ingest.DefaultTenant, batch); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, recorder.Close()); err != nil {
		return s, err
	}
	store, err := sqlite.Open(ctx, filepath.Join(dir, "stages-"+path+".db"), sqlite.Options{})
	if err != nil {
		return s, err
	}
	return s, stage(&s.Write, func() error {
		for _, batch := range kept.batches {
			if err := store.Append(ctx, ingest.DefaultTenant, batch); err != nil {
				return errors.Join(err, store.Close())
			}
		}
		return store.Close()
	})
}

// decodeStages turns bodies into events.
func decodeStages(ctx context.Context, path, dir string, bodies [][]byte, s *StageCPU, stage func(*float64, func() error) error) (events [][]ingest.Event, err error) {
	switch path {
	case pathHTTP, pathGRPC:
		decoded := make([]ptraceotlp.ExportRequest, len(bodies))
		if err := stage(&s.Decode, func() error {
			for i, body := range bodies {
				decoded[i] = ptraceotlp.NewExportRequest()
				if err := decoded[i].UnmarshalProto(body); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
		return events, stage(&s.Map, func() error {
			for _, req := range decoded {
				batch, _ := otlp.Reader{}.MapTraces(req.Traces())
				events = append(events, batch)
			}
			return nil
		})
	case pathFile:
		file := filepath.Join(dir, "stages.jsonl")
		if err := os.WriteFile(file, bytes.Join(bodies, nil), 0o600); err != nil {
			return nil, err
		}
		return events, stage(&s.Decode, func() error {
			_, err := transcript.Import(ctx, []string{file}, transcript.Options{}, func(batch []ingest.Event) error {
				events = append(events, batch)
				return nil
			})
			return err
		})
	}
	return events, stage(&s.Decode, func() error {
		for _, body := range bodies {
			var batch []ingest.Event
			for e, err := range ingest.DecodeRecords(bytes.NewReader(body), ingest.DecodeOptions{Origin: ingest.OriginAgent}) {
				if err != nil {
					return fmt.Errorf("decode: %w", err)
				}
				batch = append(batch, e)
			}
			events = append(events, batch)
		}
		return nil
	})
}
