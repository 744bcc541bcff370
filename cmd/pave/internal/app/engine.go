package app

import (
	"time"

	"pave/executor"
	bindhttp "pave/executor/bind/http"
	bindlocal "pave/executor/bind/local"
)

// reach is how steps reach their tools.
func reach(opts Options) (tools executor.Invoker, builtins *bindlocal.Registry, closeTools func(), err error) {
	web, err := bindhttp.New(bindhttp.Options{Secret: secrets(opts.DataDir), EgressAllow: opts.EgressAllow})
	if err != nil {
		return nil, nil, nil, err
	}
	builtins = bindlocal.New()
	return executor.NewMux(map[string]executor.Invoker{"http": web, "local": builtins}), builtins, web.Close, nil
}

// LocalEngine is an engine that keeps nothing, for runs outside of the service: with its own way to tools, or with
// answers. Its secrets come from where the service's do; the data directory is not opened.
func LocalEngine(opts Options, answers executor.Invoker) (engine *executor.Engine, closeTools func(), err error) {
	closeTools = func() {}
	if answers == nil {
		if answers, _, closeTools, err = reach(opts); err != nil {
			return nil, nil, err
		}
	}
	return executor.New(executor.Options{Invoker: answers, Now: time.Now, NewID: newID}), closeTools, nil
}
