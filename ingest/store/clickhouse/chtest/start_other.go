//go:build !(linux && amd64)

package chtest

import "errors"

func startEngine() (Server, func() error, error) {
	return Server{}, stop, errors.New("the engine library exists for linux/amd64 only; set PAVE_TEST_CLICKHOUSE_DSN to use a server")
}
